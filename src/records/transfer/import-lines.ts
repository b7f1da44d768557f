// What a line of an imported file says: values by field key, or why it cannot be taken. The first line
// of a CSV file names its columns. Columns of system fields are ignored.
// Contract: decisions#import.
import type { TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { catalogOf, entityFor } from '../../entities/catalog.ts';
import type { Field } from '../../entities/field.ts';
import { specOf } from '../../entities/field-types.ts';
import { invalid, type Problem } from '../../errors.ts';
import { SYSTEM_FIELDS } from '../../expression/ast.ts';
import { inspectJson } from '../../http/body.ts';
import type { JsonObject } from '../../runtime/text.ts';
import { type AccessScope, accessScopeOf } from '../access-scope.ts';
import { cellsOf } from './csv.ts';
import type { Format } from './export.ts';
import type { Line } from './lines.ts';

/** The values of a line; null for one that holds none, a header. */
export type ReadLine = { values: JsonObject } | { problem: string } | null;

/** A reader of the file's lines, in their order. It throws a 400 for a header that does not fit the entity. */
export async function readerOf(
  app: App,
  caller: TenantCaller,
  entityName: string,
  format: Format,
): Promise<(line: Line) => ReadLine> {
  if (format === 'ndjson') return (line) => ('problem' in line ? line : readJsonLine(line.text));
  const entity = await entityFor(app, caller, entityName);
  const scope = accessScopeOf(await catalogOf(app, caller.tenant), caller, entity);
  let columns: Column[] | null = null;
  return (line) => {
    if (columns !== null) return 'problem' in line ? line : readCells(columns, line.text);
    columns = readHeader(scope, line);
    return null;
  };
}

/** A column's field; null for a system field, which is ignored. */
type Column = Field | null;

function readHeader(scope: AccessScope, line: Line): Column[] {
  const cells = 'text' in line ? cellsOf(line.text) : null;
  if (cells === null) {
    const message = 'problem' in line ? line.problem : 'has quotes that are not as RFC 4180 has them';
    throw invalid([{ path: 'header', message }]);
  }
  const keys = cells.map((cell) => cell.trim());
  const problems: Problem[] = [];
  const columns = keys.map((key, i): Column => {
    const field = scope.entity.byKey.get(key);
    if (keys.indexOf(key) < i) problems.push({ path: key.slice(0, 200), message: 'is the name of two columns' });
    if (Object.hasOwn(SYSTEM_FIELDS, key)) return null;
    if (field !== undefined && scope.sees(field)) return field;
    problems.push({ path: key.slice(0, 200), message: 'is not a field of this entity' });
    return null;
  });
  if (problems.length > 0) throw invalid(problems);
  return columns;
}

function readCells(columns: readonly Column[], text: string): ReadLine {
  const cells = cellsOf(text);
  if (cells === null) return { problem: 'has quotes that are not as RFC 4180 has them' };
  if (cells.length !== columns.length) {
    return { problem: `has ${cells.length} cells, but the header has ${columns.length}` };
  }
  const values: JsonObject = {};
  for (const [i, field] of columns.entries()) {
    const cell = cells[i] as string;
    if (field !== null && cell !== '') values[field.key] = specOf(field).cell.read(cell);
  }
  return { values };
}

function readJsonLine(text: string): ReadLine {
  if (text.trim() === '') return null;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { problem: 'is not valid JSON' };
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return { problem: 'is not a JSON object' };
  const [problem] = inspectJson(value as JsonObject, text);
  if (problem !== undefined) return { problem: `${problem.path}: ${problem.message}` };
  const values = value as JsonObject;
  for (const key of Object.keys(SYSTEM_FIELDS)) delete values[key];
  return { values };
}
