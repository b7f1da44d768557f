-- Which version of the tenant schema's files a tenant has: the digest of their text when they were last
-- applied. Null before there was one; a start re-applies them wherever it differs.

alter table platform.tenants add column schema_digest text;
