// Conditions as rows of field, operator and value, joined by "all of" or "any of", in groups that may hold groups. Every
// change is a new tree; an unfinished row says what it needs, and the text waits for it.
import { Button } from '../parts/button.tsx';
import { OperandField } from './operand-field.tsx';
import { isGroup, type Operand, type Operator, type Term, type Tree } from './tree.ts';
import { type Choice, firstTerm, missingIn, operatorsOf, operatorWord } from './words.ts';

interface Props {
  tree: Tree | null;
  choices: readonly Choice[];
  tenant: string;
  /** The label of the condition, for assistive technology. */
  label: string;
  onChange: (tree: Tree | null) => void;
}

/** The parser's limit is ten; a builder deeper than this cannot be read. */
const DEEPEST = 4;

export function Builder({ tree, choices, tenant, label, onChange }: Props) {
  const root =
    tree === null
      ? { kind: 'and' as const, parts: [] }
      : isGroup(tree)
        ? tree
        : { kind: 'and' as const, parts: [tree] };
  return (
    <Level
      group={root}
      level={1}
      name={label}
      choices={choices}
      tenant={tenant}
      number=""
      onChange={(next) => onChange(next === null ? null : simple(next))}
    />
  );
}

/** A group of one is what it holds. */
function simple(tree: Tree): Tree {
  return isGroup(tree) && tree.parts.length === 1 ? simple(tree.parts[0] as Tree) : tree;
}

interface LevelProps {
  group: { kind: 'and' | 'or'; parts: readonly Tree[] };
  level: number;
  /** What the group is, and where it stands: "2." for the second condition of the whole. */
  name: string;
  number: string;
  choices: readonly Choice[];
  tenant: string;
  onChange: (tree: Tree | null) => void;
}

function Level({ group, level, name, number, choices, tenant, onChange }: LevelProps) {
  const { kind, parts } = group;
  const setPart = (at: number, part: Tree | null): void => {
    const next =
      part === null ? parts.filter((_, index) => index !== at) : parts.map((old, index) => (index === at ? part : old));
    onChange(next.length === 0 ? null : { kind, parts: next });
  };
  const add = (part: Tree): void => onChange({ kind, parts: [...parts, part] });
  const first = choices[0];
  return (
    <fieldset className={`builder ${level > 1 ? 'nested' : ''}`}>
      <legend className="sr-only">{name}</legend>
      {parts.length > 1 && (
        <select
          className="input builder-join"
          aria-label={`How the conditions of ${name} are joined`}
          value={kind}
          onChange={(event) => onChange({ kind: event.target.value as 'and' | 'or', parts })}
        >
          <option value="and">All of these are true</option>
          <option value="or">Any of these is true</option>
        </select>
      )}
      {parts.map((part, at) => (
        <Part
          key={at}
          {...{ part, choices, tenant, level }}
          number={`${number}${at + 1}`}
          onChange={(next) => setPart(at, next)}
        />
      ))}
      <div className="row">
        <Button kind="quiet" icon="plus" onClick={() => first && add(firstTerm(first))}>
          Add condition
        </Button>
        {level < DEEPEST && parts.length > 0 && (
          <Button
            kind="quiet"
            icon="layers"
            onClick={() =>
              first && add({ kind: kind === 'and' ? 'or' : 'and', parts: [firstTerm(first), firstTerm(first)] })
            }
          >
            Add group
          </Button>
        )}
      </div>
    </fieldset>
  );
}

type PartProps = Omit<LevelProps, 'group' | 'name'> & { part: Tree };

function Part({ part, level, number, choices, tenant, onChange }: PartProps) {
  if (part.kind === 'term') {
    return <Row term={part} {...{ number, choices, tenant, onChange }} />;
  }
  const isNot = part.kind === 'not';
  const inner = isNot ? part.part : part;
  const group = isGroup(inner) ? inner : { kind: 'and' as const, parts: [inner] };
  return (
    <div className="builder-group">
      <label className="checkbox">
        <input
          type="checkbox"
          checked={isNot}
          onChange={() => onChange(isNot ? inner : { kind: 'not', part: inner })}
        />
        <span>not</span>
      </label>
      <Level
        {...{ group, choices, tenant }}
        level={level + 1}
        name={`group ${number}`}
        number={`${number}.`}
        onChange={(next) => onChange(next === null ? null : isNot ? { kind: 'not', part: simple(next) } : next)}
      />
      <Button kind="quiet" icon="x" aria-label={`Remove group ${number}`} onClick={() => onChange(null)} />
    </div>
  );
}

interface RowProps {
  term: Term;
  number: string;
  choices: readonly Choice[];
  tenant: string;
  onChange: (tree: Tree | null) => void;
}

function Row({ term, number, choices, tenant, onChange }: RowProps) {
  const choice = choices.find(({ path }) => path === term.path);
  const name = `condition ${number}`;
  if (choice === undefined) return null;
  const { field } = choice;
  const problem = missingIn(term, field.type);
  const setOperator = (operator: Operator): void =>
    onChange({ ...term, operator, operands: kept(term.operands, operator) });
  const operators = operatorsOf(field.type);
  return (
    <fieldset className="builder-row">
      <legend className="sr-only">{name}</legend>
      <select
        className="input builder-field"
        aria-label={`Field of ${name}`}
        value={term.path}
        onChange={(event) => {
          const next = choices.find(({ path }) => path === event.target.value);
          if (next !== undefined) onChange(firstTerm(next));
        }}
      >
        {[...new Set(choices.map(({ group }) => group))].map((group) => (
          <optgroup key={group} label={group}>
            {choices
              .filter((one) => one.group === group)
              .map(({ path, label }) => (
                <option key={path} value={path}>
                  {label}
                </option>
              ))}
          </optgroup>
        ))}
      </select>
      <select
        className="input builder-operator"
        aria-label={`Operator of ${name}`}
        value={term.operator}
        onChange={(event) => setOperator(event.target.value as Operator)}
      >
        {(operators.includes(term.operator) ? operators : [term.operator, ...operators]).map((operator) => (
          <option key={operator} value={operator}>
            {operatorWord(operator, field.type)}
          </option>
        ))}
      </select>
      <div className="builder-value">
        <OperandField
          {...{ term, field, tenant, name, problem }}
          onChange={(operands) => onChange({ ...term, operands })}
        />
      </div>
      <Button kind="quiet" icon="x" aria-label={`Remove ${name}`} onClick={() => onChange(null)} />
      {problem !== undefined && <p className="caption builder-note">{problem}</p>}
    </fieldset>
  );
}

function kept(operands: readonly Operand[], operator: Operator): readonly Operand[] {
  if (operator === 'null' || operator === 'not null') return [];
  if (operator === 'in') return operands.filter(({ text }) => text !== '');
  return operands.length === 0 ? [{ text: '', form: 'quoted' }] : operands.slice(0, 1);
}
