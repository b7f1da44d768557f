// What the API answers, as several pages use it. A page with types of its own keeps them in its folder. Types whose names are
// the service's own come from it: the build removes such imports, so that none of its code is loaded.
import type { FieldType, OnDelete } from '../../src/entities/field.ts';

export type { FieldType };

/** Who the credential belongs to, as the API sees it. */
export interface WhoAmI {
  kind: string;
  id: string | null;
  tenant: { id: string; slug: string; name: string } | null;
  role: string | null;
  email: string | null;
  permissions: Record<string, string[]>;
}

export interface Field {
  id: string;
  key: string;
  type: FieldType;
  label: string | null;
  description: string | null;
  required: boolean;
  unique: boolean;
  indexed: boolean;
  options?: string[] | null;
  entity?: string | null;
  /** What becomes of the records that refer to a deleted one. */
  onDelete?: OnDelete | null;
  min?: number | string | null;
  max?: number | string | null;
  minLength?: number | null;
  maxLength?: number | null;
  default?: unknown;
}

export interface Entity {
  id: string;
  name: string;
  label: string | null;
  description: string | null;
  isSystem?: boolean;
  fields: Field[];
}

/** A flat record: system fields and one member per field. */
export interface Row {
  id: string;
  entityId: string;
  createdAt: string;
  updatedAt: string;
  createdBy: string | null;
  updatedBy: string | null;
  [key: string]: unknown;
}

export interface Page<T> {
  items: T[];
  total: number | null;
  page: number;
  limit: number;
  totalPages: number | null;
  nextCursor?: string | null;
  /** With `with=etags`, in the order of `items`. */
  etags?: string[];
}

export interface Tenant {
  id: string;
  slug: string;
  name: string;
  status?: string;
}

export interface Problem {
  path: string;
  message: string;
}
