// The issues that operators see: each finding of the six schema checks, with its severity and its fix. No I/O. A
// finding is one fault of one tenant's schema; an issue is the finding with severity and fix.
// Contract: interface#schema-health, decisions#operations.

const SEVERITY_BY_CHECK = {
  extension_exists: 'critical',
  table_exists: 'critical',
  column_exists: 'critical',
  system_entity_flag: 'warning',
  trigger_exists: 'warning',
  hnsw_index_exists: 'warning',
} as const;

export type Check = keyof typeof SEVERITY_BY_CHECK;
export const CHECKS = Object.keys(SEVERITY_BY_CHECK) as Check[];

/** One fault of one tenant's schema; `name` is the entity or trigger concerned. A locked table could not be read. */
export interface Finding {
  check: Check;
  table: string | null;
  column: string | null;
  name?: string;
  isLocked?: true;
}

export const TRIGGER = 'trg_enforce_svc_system';
export const HNSW_TABLE = 'chunks';
export const HNSW_COLUMN = 'embedding';
/** Columns of entity_definitions that the check `system_entity_flag` reads. */
export const FLAG_COLUMNS: readonly string[] = ['id', 'name', 'is_system'];

const REPAIR = 'POST /health/schema/fix';

export function toIssue(tenant: string, finding: Finding) {
  const { check, table, column } = finding;
  return { tenant, check, table, column, severity: SEVERITY_BY_CHECK[check], fix: fixOf(finding) };
}

function fixOf({ check, table, column, name, isLocked }: Finding): string {
  if (isLocked) return `Another session locks the table ${table}: end its transaction, then check again`;
  switch (check) {
    case 'extension_exists':
      return `Install pgvector on the Postgres server if it is missing, then ${REPAIR} (runs: create extension vector)`;
    case 'table_exists':
      return name === undefined
        ? `${REPAIR} creates the table ${table}, empty; restore its rows from a backup`
        : `${REPAIR} creates the record table of ${name}, empty; restore its rows from a backup`;
    case 'column_exists':
      return `${REPAIR} adds the column ${column} to ${table}, with its default`;
    case 'system_entity_flag':
      return `${REPAIR} sets is_system on the entity ${name}`;
    case 'trigger_exists':
      return `${REPAIR} creates the trigger ${TRIGGER} on ${table}`;
    case 'hnsw_index_exists':
      return `${REPAIR} builds the HNSW index on ${table}.${column}`;
  }
}

/** Whether only a server with pgvector can fix it. */
export function needsVector({ check, table, column }: Finding): boolean {
  if (check === 'column_exists') return table === HNSW_TABLE && column === HNSW_COLUMN;
  return check === 'extension_exists' || check === 'hnsw_index_exists';
}

/** Describes, in one line, a finding that a repair could not fix. */
export function describeFinding({ check, table, column, name }: Finding): string {
  const subject = [table, column].filter((part) => part !== null).join('.');
  return [check, subject, name].filter((part) => part !== undefined && part !== '').join(' ');
}
