// What a text and its builder share: the tree of the text, the tree as it is being built, and the text of what is
// complete. A change of the text from outside replaces what is being built.
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState } from 'react';
import type { Entity } from '../api/answers.ts';
import { entitiesQuery } from '../api/queries.ts';
import { useParams } from '../app/params.ts';
import { Field, type FieldProps } from '../parts/field.tsx';
import { Builder } from './builder.tsx';
import { ExpressionInput } from './expression-input.tsx';
import { Place } from './place.tsx';
import { isGroup, printTree, readTree, type Tree } from './tree.ts';
import { type Choice, choicesOf, missingIn } from './words.ts';

interface Condition {
  tree: Tree | null;
  choices: readonly Choice[];
  /** Why the text has no tree; undefined when it has one. */
  problem: string | undefined;
  /** Takes a tree; calls `onChange` with its text once every row is complete. */
  build: (tree: Tree | null) => void;
  isUnfinished: boolean;
}

export function useCondition(
  entity: Entity,
  value: string,
  onChange: (text: string) => void,
  allowOld = false,
): Condition {
  const { tenant } = useParams();
  const { data: entities } = useQuery(entitiesQuery(tenant));
  const [draft, setDraft] = useState<{ tree: Tree | null; text: string } | null>(null);
  const known = entities ?? NONE;
  const choices = useMemo(() => choicesOf(entity, known, allowOld), [entity, known, allowOld]);
  const read = useMemo(() => readTree(value, entity, known, allowOld), [value, entity, known, allowOld]);
  const isDraft = draft !== null && draft.text === value;
  const tree = isDraft ? draft.tree : 'tree' in read ? read.tree : null;
  return {
    tree,
    choices,
    problem: 'problem' in read && entities !== undefined ? read.problem : undefined,
    build: (next) => {
      const text = isComplete(next, choices) ? printTree(next) : value;
      setDraft({ tree: next, text });
      if (text !== value) onChange(text);
    },
    isUnfinished: isDraft && !isComplete(draft.tree, choices),
  };
}

const NONE: readonly Entity[] = [];

function isComplete(tree: Tree | null, choices: readonly Choice[]): boolean {
  if (tree === null) return true;
  if (tree.kind === 'not') return isComplete(tree.part, choices);
  if (isGroup(tree)) return tree.parts.every((part) => isComplete(part, choices));
  const choice = choices.find(({ path }) => path === tree.path);
  return choice === undefined || missingIn(tree, choice.field.type) === undefined;
}

interface Props extends FieldProps {
  /** Whose fields the condition may use. */
  entity: Entity;
  value: string;
  onChange: (text: string) => void;
  /** In rules: the values before the change, and what changes. */
  allowOld?: boolean;
  isReadOnly?: boolean;
}

const MOST_CHARACTERS = 2_000;

/** A condition in a form: its text, and under it the builder that writes and reads it. */
export function ConditionField({ entity, value, onChange, allowOld = false, isReadOnly = false, ...field }: Props) {
  const { tenant } = useParams();
  const { tree, choices, problem, build, isUnfinished } = useCondition(entity, value, onChange, allowOld);
  return (
    <div className="condition">
      <Field
        {...field}
        control={(attributes) => (
          <ExpressionInput
            {...attributes}
            rows={value.length > 80 ? 3 : 1}
            maxLength={MOST_CHARACTERS}
            readOnly={isReadOnly}
            placeholder='Such as stage = "open" AND amount > 1000'
            value={value}
            choices={choices}
            onChange={onChange}
          />
        )}
      />
      {problem === undefined && !isReadOnly && (
        <Builder tree={tree} choices={choices} tenant={tenant} label="Conditions" onChange={build} />
      )}
      {problem !== undefined && field.error === undefined && (
        <p className="caption">The builder cannot show this condition: {problem}</p>
      )}
      {problem !== undefined && <Place text={value} problem={problem} />}
      {isUnfinished && (
        <p className="caption" role="status">
          The text updates once every condition has a value.
        </p>
      )}
    </div>
  );
}
