// The field "Filter" above a list: the expression as the API takes it, applied by Enter, with the API's message under it.
import { type FormEvent, useEffect, useState } from 'react';
import { Button } from '../parts/button.tsx';
import { Icon } from '../parts/icon.tsx';
import { ExpressionInput } from './expression-input.tsx';
import type { Choice } from './words.ts';

const MOST_CHARACTERS = 2_000;
const NEARLY = 0.9;

export function FilterField({
  choices,
  value,
  problem,
  onApply,
}: {
  choices: readonly Choice[];
  value: string;
  problem: string | null;
  onApply: (text: string) => void;
}) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    onApply(text.trim());
  };
  return (
    <form className="filter" onSubmit={submit}>
      <Icon name="filter" />
      <ExpressionInput
        aria-label="Filter"
        placeholder='Filter, such as stage = "open" AND amount > 1000'
        title="A condition, as in the API. Press Enter to apply it."
        value={text}
        maxLength={MOST_CHARACTERS}
        choices={choices}
        aria-invalid={problem !== null || undefined}
        aria-describedby="filter-problem"
        data-hotkey="/"
        onChange={setText}
        onKeyDown={(event) => {
          if (event.key === 'Escape') setText(value);
          if (event.key !== 'Enter') return;
          event.preventDefault();
          event.currentTarget.form?.requestSubmit();
        }}
      />
      {text !== value && (
        <Button type="submit" kind="quiet">
          Apply
        </Button>
      )}
      {value !== '' && text === value && (
        <Button kind="quiet" icon="x" aria-label="Clear filter" onClick={() => onApply('')} />
      )}
      <p
        id="filter-problem"
        className={problem === null ? 'caption' : 'field-error'}
        role={problem === null ? undefined : 'alert'}
      >
        {problem ?? (text.length > MOST_CHARACTERS * NEARLY ? `${text.length} of ${MOST_CHARACTERS} characters` : '')}
      </p>
    </form>
  );
}
