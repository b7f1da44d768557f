-- Whether `search` also finds words that differ only by accents. Entities that have been there before keep what they do.

alter table entity_definitions add column if not exists search_folding boolean not null default false;
