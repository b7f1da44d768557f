-- Documents and their embedded chunks. Without pgvector the tables stand without the embedding;
-- the schema health check says what is missing, and repair adds it once the extension is there.

create table if not exists documents (
  id uuid primary key
);

alter table documents
  add column if not exists title text,
  add column if not exists content_text text,
  add column if not exists metadata jsonb not null default '{}',
  add column if not exists created_at timestamptz(3) not null default now(),
  add column if not exists updated_at timestamptz(3) not null default now();

create table if not exists chunks (
  id uuid primary key
);

alter table chunks
  add column if not exists document_id uuid not null references documents (id) on delete cascade,
  add column if not exists position int not null default 0,
  add column if not exists content text not null default '',
  add column if not exists created_at timestamptz(3) not null default now();

create index if not exists chunks_document_idx on chunks (document_id, position);

do $$
declare
  vector_schema text;
begin
  select n.nspname into vector_schema
  from pg_extension e
  join pg_namespace n on n.oid = e.extnamespace
  where e.extname = 'vector';
  if vector_schema is null then
    return;
  end if;
  execute format('alter table chunks add column if not exists embedding %I.vector(1536)', vector_schema);
  if exists (
    select
    from pg_index i
    join pg_class c on c.oid = i.indexrelid
    join pg_am m on m.oid = c.relam
    join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
    where i.indrelid = 'chunks'::regclass and i.indisvalid and m.amname = 'hnsw' and a.attname = 'embedding'
  ) then
    return;
  end if;
  -- One of this name that is of another kind, or that was never finished.
  drop index if exists chunks_embedding_hnsw;
  execute format(
    'create index chunks_embedding_hnsw on chunks using hnsw (embedding %I.vector_cosine_ops)',
    vector_schema
  );
end
$$;
