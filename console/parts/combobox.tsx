// A field that chooses from many options by typing: fixed ones, or those that `search` finds. At most 50 are shown; more
// typing narrows them.
import { Combobox as Ark, createListCollection } from '@ark-ui/react/combobox';
import { useMemo, useState } from 'react';
import type { FieldProps } from './field.tsx';
import { Icon } from './icon.tsx';

export interface Option {
  value: string;
  label: string;
  detail?: string;
}

const MOST_SHOWN = 50;

interface Props extends FieldProps {
  options: readonly Option[];
  value: readonly string[];
  onChange: (value: string[]) => void;
  multiple?: boolean;
  placeholder?: string;
  /** Called with what is typed, when the options come from a search. */
  onType?: (text: string) => void;
  isSearching?: boolean;
  /** All that match, when more than the options given. */
  total?: number;
  /** What stands in the field at first. */
  typed?: string;
  disabled?: boolean;
}

export function Combobox(props: Props) {
  const { label, hint, error, optional, options, value, onChange, multiple = false, placeholder, onType } = props;
  const [text, setText] = useState('');
  const shown = useMemo(() => {
    if (onType !== undefined) return options.slice(0, MOST_SHOWN);
    const wanted = text.toLowerCase();
    return options.filter((option) => option.label.toLowerCase().includes(wanted)).slice(0, MOST_SHOWN);
  }, [options, text, onType]);
  const collection = useMemo(() => createListCollection({ items: [...shown] }), [shown]);
  return (
    <Ark.Root
      className="field combobox"
      collection={collection}
      value={[...value]}
      multiple={multiple}
      disabled={props.disabled ?? false}
      {...(props.typed === undefined ? {} : { defaultInputValue: props.typed })}
      onValueChange={(change) => onChange(change.value)}
      onInputValueChange={({ inputValue }) => {
        setText(inputValue);
        onType?.(inputValue);
      }}
      openOnClick
      // Not in a portal: what is outside of a modal dialog cannot be used.
      positioning={{ strategy: 'fixed', sameWidth: true }}
      invalid={error !== undefined}
    >
      <Ark.Label>
        {label}
        {optional && <span className="dim"> optional</span>}
      </Ark.Label>
      {multiple && <Chosen {...props} />}
      <Ark.Control className="with-button">
        <Ark.Input className="input" placeholder={placeholder} aria-invalid={error === undefined ? undefined : true} />
        {optional && !multiple && value.length > 0 && (
          <Ark.ClearTrigger aria-label={`Clear ${label}`}>
            <Icon name="x" />
          </Ark.ClearTrigger>
        )}
        <Ark.Trigger aria-label={`Options of ${label}`}>
          <Icon name="chevron-down" />
        </Ark.Trigger>
      </Ark.Control>
      {hint !== undefined && <p className="caption">{hint}</p>}
      {error !== undefined && (
        <p className="field-error">
          <Icon name="circle-alert" size={14} />
          {error}
        </p>
      )}
      <Ark.Positioner>
        <Ark.Content className="menu">
          {shown.map((option) => (
            <Ark.Item key={option.value} item={option}>
              <Ark.ItemText className="grow ellipsis">{option.label}</Ark.ItemText>
              {option.detail !== undefined && <span className="caption ellipsis">{option.detail}</span>}
              <Ark.ItemIndicator>
                <Icon name="check" />
              </Ark.ItemIndicator>
            </Ark.Item>
          ))}
          <p className="caption combobox-note" role="status">
            {noteOf(props, shown.length, text)}
          </p>
        </Ark.Content>
      </Ark.Positioner>
    </Ark.Root>
  );
}

function noteOf({ isSearching, total, options, label }: Props, count: number, text: string): string {
  if (isSearching) return 'Searching…';
  if (count === 0) return `No ${label.toLowerCase()} matches “${text}”`;
  const all = total ?? options.length;
  return all > count ? `First ${count} of ${all.toLocaleString('en')}, type to narrow` : '';
}

function Chosen({ value, options, onChange }: Props) {
  if (value.length === 0) return null;
  return (
    <span className="row chips">
      {value.map((one) => {
        const name = options.find((option) => option.value === one)?.label ?? one;
        return (
          <span className="chip" key={one}>
            <span className="ellipsis">{name}</span>
            <button
              type="button"
              aria-label={`Remove ${name}`}
              onClick={() => onChange(value.filter((other) => other !== one))}
            >
              <Icon name="x" size={14} />
            </button>
          </span>
        );
      })}
    </span>
  );
}
