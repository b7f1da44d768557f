// Which column goes into which field, with the first rows as they stand in the file. Columns without a field come first
// and are left out; a value that does not fit its field is said before anything is sent, for the first lines by itself
// and for all of them by "Check all lines".
import { useState } from 'react';
import type { Entity, Field } from '../../api/answers.ts';
import { useParams } from '../../app/params.ts';
import { useRights } from '../../app/rights.ts';
import { Badge } from '../../parts/badge.tsx';
import { Button } from '../../parts/button.tsx';
import { Dialog } from '../../parts/dialog.tsx';
import { ErrorPanel } from '../../parts/error-panel.tsx';
import { Select } from '../../parts/field.tsx';
import { Notice } from '../../parts/states.tsx';
import { Table } from '../../parts/table.tsx';
import { shown } from '../../parts/value.ts';
import { TYPES } from '../../schema/attributes.ts';
import { CheckResult, useCheck } from './import-check.tsx';
import { namingFields } from './import-lookup.ts';
import { fieldOf, isNew, type Mapping, Plan, targetOf, textsOf, withNewFields } from './import-plan.ts';
import type { Source } from './import-source.ts';
import { convert, guessType, needsChoice, type Reading } from './import-values.ts';

interface Props {
  title: string;
  entity: Entity;
  entities: readonly Entity[];
  source: Source;
  mapping: Mapping;
  reading: Reading;
  onChange: (patch: { mapping?: Mapping; reading?: Reading }) => void;
  onBack: () => void;
  onStart: () => Promise<void>;
  onClose: () => void;
}

const ROWS = 5;
const MOST_SHOWN = 60;

export function ImportMapping(props: Props) {
  const { title, entity, entities, source, mapping, reading, onChange, onBack, onStart, onClose } = props;
  const { tenant } = useParams();
  const { isAdmin } = useRights(tenant);
  const check = useCheck();
  const [isStarting, setStarting] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const change = (patch: { mapping?: Mapping; reading?: Reading }): void => {
    check.reset();
    onChange(patch);
  };
  const start = async (): Promise<void> => {
    check.reset();
    setStarting(true);
    setFailure(null);
    try {
      await onStart();
    } catch (cause) {
      setFailure(cause);
      setStarting(false);
    }
  };
  const targets = Object.values(mapping).filter(Boolean);
  const used = targets.map(fieldOf).filter(Boolean);
  const twice = used.find((field, at) => used.indexOf(field) !== at);
  const columns = [...source.columns].sort((a, b) => Number(mapping[a] !== '') - Number(mapping[b] !== ''));
  const leftOut = columns.filter((column) => mapping[column] === '');
  const block =
    targets.length === 0
      ? 'Choose a field for at least one column.'
      : twice === undefined
        ? null
        : `Two columns go into ${twice}.`;
  return (
    <Dialog
      wide
      title={title}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onBack}>Back</Button>
          <Button
            disabledReason={block}
            busy={check.isRunning}
            onClick={() => void check.run(source, new Plan(tenant, entity.fields, mapping, reading, entities))}
          >
            Check all lines
          </Button>
          <Button kind="primary" disabledReason={block} busy={isStarting} onClick={() => void start()}>
            Import
          </Button>
        </>
      }
    >
      <div className="stack">
        {failure !== null && <ErrorPanel title="Nothing was imported." error={failure} />}
        <p className="caption">
          {source.name}: {source.format === 'csv' ? `CSV, separated by ${nameOf(source.separator)}` : 'NDJSON'}
        </p>
        {source.encoding === 'windows-1252' && (
          <Notice tone="warn">
            The file is not UTF-8. It is read as Windows-1252: see whether accents and umlauts look right below.
          </Notice>
        )}
        <Missing entity={entity} used={used} />
        <CheckResult check={check} />
        {isAdmin && leftOut.length > 0 && (
          <div>
            <Button icon="plus" onClick={() => change({ mapping: withNewFields(source, mapping, reading) })}>
              {leftOut.length === 1 ? 'Create a field for 1 column' : `Create fields for ${leftOut.length} columns`}
            </Button>
          </div>
        )}
        <ul className="import-columns">
          {columns.map((column) => (
            <ColumnRow
              key={column}
              {...{ column, entity, entities, source, reading, canMake: isAdmin }}
              target={mapping[column] ?? ''}
              onTarget={(target) => change({ mapping: { ...mapping, [column]: target } })}
            />
          ))}
        </ul>
        <Choices {...{ entity, source, mapping, reading }} onReading={(next) => change({ reading: next })} />
        <section className="stack" aria-labelledby="import-preview">
          <h3 id="import-preview">The first rows</h3>
          <Preview source={source} />
        </section>
      </div>
    </Dialog>
  );
}

function Missing({ entity, used }: { entity: Entity; used: readonly string[] }) {
  const missing = entity.fields.filter(
    ({ key, required, default: value }) => required && value == null && !used.includes(key),
  );
  if (missing.length === 0) return null;
  return (
    <Notice tone="warn">
      {missing.map(({ key }) => key).join(', ')} {missing.length === 1 ? 'is' : 'are'} required and in no column: lines
      without will be refused.
    </Notice>
  );
}

function Preview({ source: { columns, samples } }: { source: Source }) {
  return (
    <Table
      caption="The first rows"
      rows={samples.slice(0, ROWS)}
      keyOf={({ line }) => String(line)}
      columns={[
        { key: ' line', header: 'line', cell: ({ line }) => <span className="num">{line}</span> },
        ...columns.map((column) => ({
          key: column,
          header: column,
          cell: ({ values }: Source['samples'][number]) => (
            <span className="import-cell">
              {values[column] === '' ? '' : shown(values[column]).slice(0, MOST_SHOWN)}
            </span>
          ),
        })),
      ]}
    />
  );
}

interface ChoicesProps {
  entity: Entity;
  source: Source;
  mapping: Mapping;
  reading: Reading;
  onReading: (reading: Reading) => void;
}

/** What the file does not say by itself; asked only where it makes a difference. */
function Choices({ entity, source, mapping, reading, onReading }: ChoicesProps) {
  const needs = source.columns.map((column) => {
    const type = typeOf(entity, mapping[column] ?? '');
    return type === undefined ? null : needsChoice(type, textsOf(source.samples, column));
  });
  const hasTimes = source.columns.some((column) => typeOf(entity, mapping[column] ?? '') === 'datetime');
  return (
    <>
      {needs.some((need) => need?.numbers) && (
        <Select
          label="Numbers are written"
          value={reading.isCommaDecimal ? 'comma' : 'point'}
          onChange={({ target }) => onReading({ ...reading, isCommaDecimal: target.value === 'comma' })}
        >
          <option value="point">1,234.5</option>
          <option value="comma">1.234,5</option>
        </Select>
      )}
      {needs.some((need) => need?.days) && (
        <Select
          label="Days are written"
          value={reading.isDayFirst ? 'day' : 'month'}
          onChange={({ target }) => onReading({ ...reading, isDayFirst: target.value === 'day' })}
        >
          <option value="day">22/11/2026</option>
          <option value="month">11/22/2026</option>
        </Select>
      )}
      {hasTimes && (
        <p className="caption">Times without a zone are those of {Intl.DateTimeFormat().resolvedOptions().timeZone}.</p>
      )}
    </>
  );
}

function typeOf(entity: Entity, target: string): Field['type'] | undefined {
  if (isNew(target)) return target.slice(1) as Field['type'];
  return entity.fields.find(({ key }) => key === target)?.type;
}

interface ColumnProps {
  column: string;
  entity: Entity;
  entities: readonly Entity[];
  source: Source;
  reading: Reading;
  canMake: boolean;
  target: string;
  onTarget: (target: string) => void;
}

function ColumnRow({ column, entity, entities, source, reading, canMake, target, onTarget }: ColumnProps) {
  const texts = textsOf(source.samples, column);
  const field = entity.fields.find(({ key }) => key === target);
  const problem = field === undefined ? null : problemOf(field, texts, reading);
  const guessed = guessType(texts, reading);
  return (
    <li>
      <span className="import-column">
        <strong className="ellipsis">{column}</strong>
        <span className="caption ellipsis">
          {texts
            .slice(0, 3)
            .map((text) => text.slice(0, MOST_SHOWN))
            .join(' · ') || 'no values in the first lines'}
        </span>
        {problem !== null && <Badge tone="warn">{problem}</Badge>}
      </span>
      <select
        className="input"
        aria-label={`Field of ${column}`}
        value={target}
        onChange={(event) => onTarget(event.target.value)}
      >
        <option value="">Do not import</option>
        {entity.fields.flatMap((one) => [
          <option key={one.key} value={one.key}>
            {one.label ?? one.key} ({one.entity == null ? one.type : `id of ${one.entity}`})
          </option>,
          ...namesOf(one, entities).map((by) => (
            <option key={`${one.key}/${by}`} value={targetOf(one.key, by)}>
              {one.label ?? one.key} ({by} of {one.entity})
            </option>
          )),
        ])}
        {canMake && (
          <option value={`+${isNew(target) ? target.slice(1) : guessed}`}>{newField(target, guessed)}</option>
        )}
      </select>
    </li>
  );
}

const newField = (target: string, guessed: Field['type']): string =>
  `New field (${TYPES[isNew(target) ? (target.slice(1) as Field['type']) : guessed].label.toLowerCase()})`;

/** The fields by which a relation's records can be named. */
function namesOf({ type, entity }: Field, entities: readonly Entity[]): string[] {
  if (type !== 'relation' && type !== 'relations') return [];
  const other = entities.find(({ name }) => name === entity);
  return other === undefined ? [] : namingFields(other).map(({ key }) => key);
}

/** What would be refused among the first values. */
function problemOf(field: Field, texts: readonly string[], reading: Reading): string | null {
  for (const text of texts) {
    const converted = convert(field, text, reading);
    if ('problem' in converted) return `${text.slice(0, MOST_SHOWN)} ${converted.problem}`;
  }
  return null;
}

function nameOf(separator: string): string {
  return { ',': 'commas', ';': 'semicolons', '\t': 'tabs' }[separator] ?? separator;
}
