// The entities of the demo tenant: companies, people and deals, with fields of every type. Each is a body of
// `POST /api/entities`; the targets of relations come first.
// Contract: decisions#configuration, decisions#fields.
import type { NewEntity } from '../entities/definition.ts';

export const COUNTRIES = ['DE', 'FR', 'GR', 'IS', 'JP', 'PL', 'PT', 'SE'];
export const STAGES = ['lead', 'qualified', 'proposal', 'won', 'lost'];
export const TAGS = ['export', 'family-owned', 'public', 'startup'];

const companies: NewEntity = {
  name: 'companies',
  label: 'Companies',
  fields: [
    { key: 'title', type: 'text', required: true, indexed: true, maxLength: 200 },
    { key: 'website', type: 'url' },
    { key: 'country', type: 'select', options: COUNTRIES, indexed: true },
    { key: 'employees', type: 'integer', min: 1 },
    { key: 'rating', type: 'number', min: 0, max: 5 },
    { key: 'tags', type: 'multiselect', options: TAGS },
    { key: 'taxNumber', type: 'uuid', unique: true, description: 'no two companies share one' },
    { key: 'founded', type: 'date' },
    { key: 'address', type: 'json' },
  ],
};

const people: NewEntity = {
  name: 'people',
  label: 'People',
  fields: [
    { key: 'fullName', type: 'text', required: true },
    { key: 'email', type: 'email', unique: true },
    { key: 'newsletter', type: 'boolean', default: false },
    { key: 'company', type: 'relation', entity: 'companies', onDelete: 'cascade' },
  ],
};

const deals: NewEntity = {
  name: 'deals',
  label: 'Deals',
  fields: [
    { key: 'title', type: 'text', required: true },
    { key: 'stage', type: 'select', options: STAGES, default: 'lead', indexed: true },
    { key: 'amount', type: 'decimal', min: 0, indexed: true },
    { key: 'closesAt', type: 'datetime', indexed: true },
    { key: 'company', type: 'relation', entity: 'companies', required: true, onDelete: 'restrict' },
    { key: 'contacts', type: 'relations', entity: 'people', onDelete: 'set_null' },
    { key: 'notes', type: 'text' },
  ],
};

export const DEMO_ENTITIES: readonly NewEntity[] = [companies, people, deals];
