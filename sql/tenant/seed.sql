-- Rows that every tenant has. Idempotent: runs after the migrations at provisioning, upgrade and repair.

insert into roles (id, name, description, is_system, permissions)
values
  (platform.uuidv7(), 'owner', 'Everything', true, '{"*": ["read", "create", "update", "delete"]}'),
  (platform.uuidv7(), 'admin', 'Everything', true, '{"*": ["read", "create", "update", "delete"]}'),
  (platform.uuidv7(), 'member', 'Reads and writes all records', true, '{"*": ["read", "create", "update", "delete"]}'),
  (platform.uuidv7(), 'viewer', 'Reads all records', true, '{"*": ["read"]}')
on conflict (name) do nothing;

update entity_definitions set is_system = true where name like '\_svc\_%' and not is_system;
