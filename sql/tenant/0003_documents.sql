-- Documents and their embedded chunks. Without pgvector, chunks has no embedding column; the schema
-- health check reports it, and repair adds the column and its index once the extension exists.

create table documents (
  id uuid constraint documents_pkey primary key,
  title text,
  content_text text,
  metadata jsonb not null default '{}',
  created_at timestamptz(3) not null default now(),
  updated_at timestamptz(3) not null default now()
);

create table chunks (
  id uuid constraint chunks_pkey primary key,
  document_id uuid not null constraint chunks_document_id_fkey references documents (id) on delete cascade,
  position int not null default 0,
  content text not null default '',
  created_at timestamptz(3) not null default now()
);

create index chunks_document_idx on chunks (document_id, position);

do $$
declare
  vector_schema text := (
    select n.nspname from pg_extension as e join pg_namespace as n on n.oid = e.extnamespace where e.extname = 'vector'
  );
begin
  if vector_schema is not null then
    execute format('alter table chunks add column embedding %I.vector(1536)', vector_schema);
    execute format(
      'create index chunks_embedding_hnsw on chunks using hnsw (embedding %I.vector_cosine_ops)', vector_schema
    );
  end if;
end
$$;
