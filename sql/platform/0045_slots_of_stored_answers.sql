-- Of a stored response the id of its entity, and the slot of each field by its key, as JSON: a key may belong to another field when the
-- response is replayed. Empty in responses of earlier versions. It counts among the bytes that a tenant keeps.

alter table platform.idempotency_keys add column slots text not null default '';

drop trigger idempotency_keys_added on platform.idempotency_keys;
drop trigger idempotency_keys_removed on platform.idempotency_keys;
drop trigger idempotency_keys_changed on platform.idempotency_keys;
drop trigger idempotency_keys_replaced on platform.idempotency_keys;
create trigger idempotency_keys_added after insert on platform.idempotency_keys referencing new table as added
  for each statement execute function platform.count_added('300 + octet_length(key) + octet_length(answer) + octet_length(slots)');
create trigger idempotency_keys_removed after delete on platform.idempotency_keys referencing old table as removed
  for each statement execute function platform.count_removed('300 + octet_length(key) + octet_length(answer) + octet_length(slots)');
create trigger idempotency_keys_changed after update on platform.idempotency_keys referencing new table as added
  for each statement execute function platform.count_added('300 + octet_length(key) + octet_length(answer) + octet_length(slots)');
create trigger idempotency_keys_replaced after update on platform.idempotency_keys referencing old table as removed
  for each statement execute function platform.count_removed('300 + octet_length(key) + octet_length(answer) + octet_length(slots)');
