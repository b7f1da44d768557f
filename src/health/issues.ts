// The six checks in words: severity, and what mends each finding. Pure. A finding is what a check has
// found in one tenant's schema; an issue is the finding as operators read it.
// Contract: interface#schema-health, decisions#operations.

export type Check =
  | 'extension_exists'
  | 'table_exists'
  | 'column_exists'
  | 'system_entity_flag'
  | 'trigger_exists'
  | 'hnsw_index_exists';

/** `name` is the entity or the trigger that a finding is about. */
export interface Finding {
  check: Check;
  table: string | null;
  column: string | null;
  name?: string;
}

export interface Issue {
  tenant: string;
  check: Check;
  table: string | null;
  column: string | null;
  severity: 'critical' | 'warning';
  fix: string;
}

export const TRIGGER = 'trg_enforce_svc_system';
export const HNSW_COLUMN = 'embedding';
/** Columns of entity_definitions that the check of flags reads. */
export const FLAG_COLUMNS: readonly string[] = ['id', 'name', 'is_system'];

const REPAIR = 'POST /health/schema/fix';

/** The finding with its severity and what mends it. */
export function toIssue(tenant: string, finding: Finding): Issue {
  const { check, table, column } = finding;
  return { tenant, check, table, column, severity: severityOf(check), fix: fixOf(finding) };
}

function severityOf(check: Check): Issue['severity'] {
  return check === 'extension_exists' || check === 'table_exists' || check === 'column_exists' ? 'critical' : 'warning';
}

function fixOf({ check, table, column, name }: Finding): string {
  switch (check) {
    case 'extension_exists':
      return `Install pgvector on the Postgres server if it is not there, then ${REPAIR} (runs: create extension vector)`;
    case 'table_exists':
      return name === undefined
        ? `${REPAIR} makes the table ${table} anew, empty; restore its rows from a backup`
        : `${REPAIR} makes the table of the records of ${name} anew, empty; restore its rows from a backup`;
    case 'column_exists':
      return `${REPAIR} adds the column ${column} to ${table}, with its default`;
    case 'system_entity_flag':
      return `${REPAIR} sets is_system on the entity ${name}`;
    case 'trigger_exists':
      return `${REPAIR} makes the trigger ${TRIGGER} on ${table} anew`;
    case 'hnsw_index_exists':
      return `${REPAIR} builds the HNSW index on ${table}.${column}`;
  }
}

/** A finding in few words, for what a repair could not mend. */
export function wordsOf({ check, table, column, name }: Finding): string {
  const place = [table, column].filter((part) => part !== null).join('.');
  return [check, place, name].filter((part) => part !== undefined && part !== '').join(' ');
}
