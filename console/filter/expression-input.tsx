// The text of a condition, completed while it is typed: fields, operators of their types, known values. Arrows choose,
// Enter or Tab takes, Esc closes; without a choice these keys mean what they mean elsewhere.
import {
  type ChangeEvent,
  type KeyboardEvent,
  type Ref,
  type TextareaHTMLAttributes,
  useId,
  useRef,
  useState,
} from 'react';
import { flushSync } from 'react-dom';
import { type Completion, completionAt } from './completion.ts';
import type { Choice } from './words.ts';

interface Props extends Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, 'onChange' | 'value'> {
  value: string;
  onChange: (text: string) => void;
  choices: readonly Choice[];
  ref?: Ref<HTMLTextAreaElement>;
}

const CLOSED = { completion: null as Completion | null, active: -1 };

export function ExpressionInput({ value, onChange, choices, onKeyDown, ...attributes }: Props) {
  const id = useId();
  const field = useRef<HTMLTextAreaElement>(null);
  const [{ completion, active }, setOpen] = useState(CLOSED);
  const options = completion?.options ?? [];
  const type = ({ target }: ChangeEvent<HTMLTextAreaElement>): void => {
    onChange(target.value);
    setOpen({ completion: completionAt(target.value, target.selectionStart, choices), active: -1 });
  };
  const take = (at: number): void => {
    const option = options[at];
    if (completion === null || option === undefined) return;
    const rest = value.slice(completion.to);
    const head = `${value.slice(0, completion.from)}${option.text}${rest.startsWith(' ') ? '' : ' '}`;
    // At once: a key that is pressed next must find the caret in its place.
    flushSync(() => {
      onChange(head + rest);
      setOpen({ completion: completionAt(head, head.length, choices), active: -1 });
    });
    field.current?.setSelectionRange(head.length, head.length);
  };
  const onKey = (event: KeyboardEvent<HTMLTextAreaElement>): void => {
    const act = actionOf(event, active, options.length);
    if (act === null) {
      if (event.key === 'Enter') setOpen(CLOSED);
      onKeyDown?.(event);
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    if (act === 'take') take(active);
    else if (act === 'close') setOpen(CLOSED);
    else if (act === 'open')
      setOpen({ completion: completionAt(value, event.currentTarget.selectionStart, choices), active: 0 });
    else setOpen({ completion, active: act });
  };
  return (
    <span className="expression">
      <textarea
        rows={1}
        {...attributes}
        ref={field}
        className="input mono"
        spellCheck={false}
        autoComplete="off"
        autoCapitalize="none"
        aria-autocomplete="list"
        aria-controls={completion === null ? undefined : id}
        data-keeps-escape={completion === null ? undefined : true}
        aria-activedescendant={active < 0 ? undefined : `${id}-${active}`}
        value={value}
        onChange={type}
        onKeyDown={onKey}
        onBlur={() => setOpen(CLOSED)}
      />
      {completion !== null && (
        <div className="menu expression-options" role="listbox" aria-label="Completions" id={id}>
          {options.map(({ text, detail }, at) => (
            <div
              key={text}
              id={`${id}-${at}`}
              role="option"
              aria-selected={at === active}
              // Before the field loses the focus, which closes the list.
              onMouseDown={(event) => {
                event.preventDefault();
                take(at);
              }}
            >
              <code className="grow ellipsis">{text}</code>
              <span className="caption ellipsis">{detail}</span>
            </div>
          ))}
        </div>
      )}
    </span>
  );
}

type Action = 'take' | 'close' | 'open' | number | null;

function actionOf({ key, ctrlKey }: KeyboardEvent, active: number, count: number): Action {
  if (key === ' ' && ctrlKey) return 'open';
  if (count === 0) return null;
  if (key === 'ArrowDown') return (active + 1) % count;
  if (key === 'ArrowUp') return active <= 0 ? count - 1 : active - 1;
  if (key === 'Escape') return 'close';
  return (key === 'Enter' || key === 'Tab') && active >= 0 ? 'take' : null;
}
