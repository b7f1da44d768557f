// Parses the lines of an imported file into values by field key. The first line of a CSV file names its columns;
// columns of system fields are ignored.
// Contract: decisions#import.
import type { TenantCaller } from '../../access/caller.ts';
import type { App } from '../../app.ts';
import { type AccessScope, accessScopeFor } from '../../entities/access-scope.ts';
import type { Field } from '../../entities/field.ts';
import { specOf } from '../../entities/field-types.ts';
import { invalid, type Problem } from '../../errors.ts';
import { SYSTEM_FIELDS } from '../../expression/ast.ts';
import { inspectJson } from '../../http/body.ts';
import type { JsonObject } from '../../runtime/text.ts';
import { cellsOf } from './csv.ts';
import type { Format } from './export.ts';
import type { Line } from './lines.ts';

/** Null for a line without values, such as a header. */
export type ParsedLine = { values: JsonObject } | { problem: string } | null;

/** A parser for the file's lines, called in order. It throws a 400 for a header that does not match the entity. */
export async function lineParser(
  app: App,
  caller: TenantCaller,
  entityName: string,
  format: Format,
): Promise<(line: Line) => ParsedLine> {
  if (format === 'ndjson') return (line) => ('problem' in line ? line : parseJsonLine(line.text));
  const scope = await accessScopeFor(app, caller, entityName);
  let columns: Column[] | null = null;
  return (line) => {
    if (columns !== null) return 'problem' in line ? line : parseCells(columns, line.text);
    columns = parseHeader(scope, line);
    return null;
  };
}

/** Null for a system field. */
type Column = Field | null;

function parseHeader(scope: AccessScope, line: Line): Column[] {
  const cells = 'text' in line ? cellsOf(line.text) : null;
  if (cells === null) {
    const message = 'problem' in line ? line.problem : 'has misplaced quotes (see RFC 4180)';
    throw invalid([{ path: 'header', message }]);
  }
  const keys = cells.map((cell) => cell.trim());
  const problems: Problem[] = [];
  const columns = keys.map((key, i): Column => {
    const field = scope.entity.byKey.get(key);
    if (keys.indexOf(key) < i) problems.push({ path: key.slice(0, 200), message: 'names two columns' });
    if (Object.hasOwn(SYSTEM_FIELDS, key)) return null;
    if (field !== undefined && scope.isVisible(field)) return field;
    problems.push({ path: key.slice(0, 200), message: 'is not a field of this entity' });
    return null;
  });
  if (problems.length > 0) throw invalid(problems);
  return columns;
}

function parseCells(columns: readonly Column[], text: string): ParsedLine {
  const cells = cellsOf(text);
  if (cells === null) return { problem: 'has misplaced quotes (see RFC 4180)' };
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

function parseJsonLine(text: string): ParsedLine {
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
