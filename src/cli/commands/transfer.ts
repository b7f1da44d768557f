// Whole files: `tds import` sends a file as it is read, `tds export` writes a file as it arrives; both in constant memory. After
// an interrupted upload, the same command with `--upsert` continues it: records that were written are found by their unique
// field.
// Contract: decisions#import, decisions#export.
import { statSync } from 'node:fs';
import { extname } from 'node:path';
import type { Command } from 'commander';
import { Option } from 'commander';
import { ApiError } from '../../../client/src/client.ts';
import { type Call, runs } from '../call.ts';
import { describeColumns } from '../columns.ts';
import { type EntityView, entityPath, recordsPath } from '../entity.ts';
import { EndWith, EXIT, Failure, isRefusal, UsageError } from '../failures.ts';
import { withKeys } from '../header.ts';
import { openBytes, requireFile } from '../input.ts';
import { counted, startProgress } from '../progress.ts';
import { reasonOf } from '../reasons.ts';
import { fromLine } from '../resume.ts';
import { saveTo } from '../save.ts';
import type { Service } from '../service.ts';

interface ImportOptions {
  format?: string;
  upsert?: string;
  ids?: string;
  delimiter?: string;
  dryRun?: boolean;
  create?: boolean;
  relation: ReadonlyMap<string, string>;
  fromLine?: string;
}

interface ImportReport {
  created: number;
  updated?: number;
  refused: number;
  errors: { line: number; message: string }[];
  importId?: string;
}

const CONTENT_TYPES = { csv: 'text/csv', ndjson: 'application/x-ndjson', json: 'application/json' } as const;
/** How many refused lines are shown to people. */
const SHOWN_MAX = 20;

export function addTransferCommands(program: Command): void {
  const load = program
    .command('import')
    .argument('<entity>')
    .argument('<file>', 'CSV with a header line, NDJSON, or a JSON array; `-` for standard input')
    .addOption(new Option('--format <format>', 'default: by the name of the file').choices(['csv', 'ndjson', 'json']))
    .option('--upsert <field>', 'change the record that has this unique field; create what is new')
    .addOption(new Option('--ids <what>', 'keep the ids of the file').choices(['keep', 'new']))
    .option('--delimiter <character>', 'of CSV; found by itself when it is `;` or a tab')
    .addOption(new Option('--create', 'make the entity from the columns of the CSV file first').conflicts('dryRun'))
    .addOption(
      new Option(
        '--relation <key=entity>',
        'with --create: column `key.field` names records of an entity by that field',
      )
        .argParser(withTarget)
        .default(new Map(), 'none'),
    )
    .option('--from-line <number>', 'go on at this line of the file')
    .option('--dry-run', 'report what would happen, write nothing')
    .description('import records from a file')
    .addHelpText('after', IMPORT_EXAMPLES);
  runs(load, importFile);
  const save = program
    .command('export')
    .argument('<entity>')
    .option('--out <file>', 'default: standard output')
    .addOption(
      new Option('--format <format>', 'default: by the name of the file, else NDJSON').choices(['csv', 'ndjson']),
    )
    .option('--filters <condition>', 'such as "stage = won"')
    .option('--search <words>', 'words that must occur')
    .option('--sort <keys>', 'fields separated by commas; `-` sorts one descending')
    .option('--fields <keys>', 'only these fields, separated by commas')
    .description('export records to a file')
    .addHelpText('after', EXPORT_EXAMPLES);
  runs(save, exportFile);
}

/** Adds the option `company=companies` to those given before it. */
function withTarget(given: string, targets: ReadonlyMap<string, string>): ReadonlyMap<string, string> {
  const [key = '', entity = '', ...rest] = given.split('=');
  if (key === '' || entity === '' || rest.length > 0)
    throw new UsageError('--relation takes key=entity, such as company=companies');
  return new Map([...targets, [key, entity]]);
}

const IMPORT_EXAMPLES = `
Examples:
  $ tds import contacts contacts.csv --create
  $ tds import people people.csv --create --relation company=companies     # with a column company.code
  $ tds import contacts contacts.csv --upsert email
  $ pg_dump ... | to-ndjson | tds import contacts - --format ndjson --ids keep
The columns of CSV have the fields' keys or labels as names; a relation is named by a unique field of its target, company.code.
Lines that the service refuses are listed, and the exit code is 3; the others are imported. An upload that was cut says where it
was; run it again with --upsert, without --create: what is there is not created twice.`;
const EXPORT_EXAMPLES = `
Examples:
  $ tds export deals --out deals.csv --filters "stage = won"
  $ tds export deals | jq -r .title`;

async function importFile(call: Call<ImportOptions>, entity: string, file: string): Promise<void> {
  const { options, output, service } = call;
  const format = formatOf(file, options.format);
  if (options.create) await createFromColumns(call, entity, file, format);
  const first = options.fromLine === undefined ? 1 : Number(options.fromLine);
  if (!Number.isInteger(first) || first < 1) throw new UsageError('--from-line takes a line number');
  if (file !== '-') requireFile(file);
  const keys = format === 'csv' ? await keysByLabel(service, entity) : new Map<string, string>();
  const progress = await startProgress(output, file === '-' ? null : statSync(file).size);
  const sent = new LineCount();
  const bytes = counted(openBytes(file), (length) => progress.add(length));
  const content = fromLine(sent.watch(bytes), first, format);
  try {
    const { upsert, ids, delimiter, dryRun } = options;
    const report = await service.upload<ImportReport>(
      `${recordsPath(entity)}/import`,
      keys.size === 0 ? content : withKeys(content, options.delimiter, keys),
      CONTENT_TYPES[format],
      { upsert, ids, delimiter, dryRun },
    );
    progress.stop();
    await tell(call, report, first);
  } catch (error) {
    progress.stop();
    if (isRefusal(error) || error instanceof EndWith || error instanceof UsageError) throw error;
    throw cut(error, options, sent.lines, call.signal.aborted);
  }
}

/** The keys of the entity's fields by their labels, for the columns of a spreadsheet. */
async function keysByLabel(service: Service, entity: string): Promise<ReadonlyMap<string, string>> {
  const { fields } = await service.get<EntityView>(entityPath(entity)).catch((error) => {
    if (!(error instanceof ApiError && error.status === 404)) throw error;
    throw new Failure(`there is no entity ${entity}`, '--create makes it from the columns of a CSV file', EXIT.refused);
  });
  return new Map(fields.flatMap(({ key, label }) => (typeof label === 'string' ? [[label, key] as const] : [])));
}

/**
 * Describes where an upload was interrupted, and how to continue. The service may not have read the last lines that were sent.
 */
function cut(
  error: unknown,
  { upsert, dryRun, create }: ImportOptions,
  lines: number,
  isInterrupted: boolean,
): Failure {
  const reason = isInterrupted ? 'interrupted' : error instanceof Failure ? error.message : reasonOf(error);
  const without = create ? ' without --create' : '';
  const resume = `run it again${without}${upsert === undefined ? ' with --upsert <unique field>' : ''}`;
  const hint = dryRun ? null : `${resume}: what is there is not created twice; the lines sent last may not be there`;
  const code = isInterrupted ? EXIT.interrupted : EXIT.failed;
  return new Failure(`the import was cut after ${lines} lines had been sent: ${reason}`, hint, code);
}

async function tell({ output, options }: Call<ImportOptions>, report: ImportReport, first: number): Promise<void> {
  // The header comes before the first line that was sent.
  const skipped = first > 2 ? first - 2 : 0;
  const errors = report.errors.map(({ line, message }) => ({ line: line + skipped, message }));
  await output.answer({ ...report, errors }, () => {
    const { created, updated = 0, refused } = report;
    const changed = options.upsert === undefined ? '' : `, ${updated} updated`;
    output.note(`${options.dryRun ? 'dry run: ' : ''}${created} created${changed}, ${refused} refused`);
    for (const { line, message } of errors.slice(0, SHOWN_MAX)) output.note(`  line ${line}: ${message}`);
    if (refused > SHOWN_MAX) output.note(`  and ${refused - SHOWN_MAX} more; --json lists the first 1000`);
  });
  if (report.refused > 0) throw new EndWith(EXIT.refused);
}

async function createFromColumns(
  call: Call<ImportOptions>,
  entity: string,
  file: string,
  format: string,
): Promise<void> {
  if (format !== 'csv' || file === '-') throw new UsageError('--create reads the columns of a CSV file');
  const { delimiter, upsert: unique, relation: targets } = call.options;
  const fields = await describeColumns(file, delimiter, { unique, targets });
  await call.service.post('/api/entities', { name: entity, fields });
  const listed = fields.map(({ key, type }) => `${key} ${type}`).join(', ');
  call.output.note(`${entity} is created: ${listed}; \`tds entities delete ${entity}\` undoes it`);
}

function formatOf(file: string, given: string | undefined): 'csv' | 'ndjson' | 'json' {
  if (given !== undefined) return given as 'csv';
  const extension = extname(file).toLowerCase();
  if (['.csv', '.tsv', '.txt'].includes(extension)) return 'csv';
  if (['.ndjson', '.jsonl'].includes(extension)) return 'ndjson';
  if (extension === '.json') return 'json';
  throw new UsageError(`the format of ${file} is not clear from its name; give --format csv, ndjson or json`);
}

/** Counts the lines in the bytes that pass. */
class LineCount {
  lines = 0;

  async *watch(bytes: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of bytes) {
      yield chunk;
      for (let at = chunk.indexOf(10); at >= 0; at = chunk.indexOf(10, at + 1)) this.lines += 1;
    }
  }
}

interface ExportOptions {
  out?: string;
  format?: string;
  filters?: string;
  search?: string;
  sort?: string;
  fields?: string;
}

async function exportFile(call: Call<ExportOptions>, entity: string): Promise<void> {
  const { options, output, service } = call;
  const { out, filters, search, sort, fields } = options;
  const format = out === undefined || out === '-' ? (options.format ?? 'ndjson') : formatOf(out, options.format);
  if (format === 'json') throw new UsageError('an export is CSV or NDJSON; name the file so, or give --format');
  const query = { format, filters, search, sort, fields };
  const body = await service.download(`${recordsPath(entity)}/export`, query);
  if (out === undefined || out === '-') {
    return output.copy(body);
  }
  const bytes = await saveTo(call, out, body);
  await output.answer({ file: out, bytes }, () => output.note(`${out}: ${bytes} bytes`));
}
