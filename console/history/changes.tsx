// Differences by field: the old value struck through and marked "−", the new one "+", as the field's type shows them. Of
// two long texts the place is shown where they differ; all of them on demand.
import { type ReactNode, useState } from 'react';
import type { Entity, Field } from '../api/answers.ts';
import { RelationText } from '../grid/relation-text.tsx';
import { cellText } from '../grid/values.ts';
import { Button } from '../parts/button.tsx';
import { counted, shown } from '../parts/value.ts';

export interface Difference {
  key: string;
  /** Undefined where there is no such side: of a creation, of a deletion. */
  from?: unknown;
  to?: unknown;
}

interface Props {
  tenant: string;
  entity: Entity;
  differences: readonly Difference[];
}

/** More fields than these are shown on demand. */
const MOST_FIELDS = 8;
/** Characters of a text that is shown whole, of one that is folded, and of one that is unfolded. */
const SHORT = 160;
const AROUND = 40;
const MOST_SHOWN = 50_000;

export function Changes({ tenant, entity, differences }: Props) {
  const [isOpen, open] = useState(false);
  const [first, rest] = [differences.slice(0, MOST_FIELDS), differences.slice(MOST_FIELDS)];
  return (
    <>
      <dl className="diff">
        {(isOpen ? differences : first).map((difference) => (
          <div key={difference.key}>
            <dt>{labelOf(entity, difference.key)}</dt>
            <dd>
              <Value {...{ tenant, difference }} field={entity.fields.find(({ key }) => key === difference.key)} />
            </dd>
          </div>
        ))}
      </dl>
      {rest.length > 0 && (
        <Button kind="quiet" aria-expanded={isOpen} onClick={() => open(!isOpen)}>
          {isOpen ? 'Show fewer' : `Show ${counted(rest.length, 'more field', 'more fields')}`}
        </Button>
      )}
    </>
  );
}

export function labelOf({ fields }: Entity, key: string): string {
  return fields.find((field) => field.key === key)?.label ?? key;
}

interface ValueProps {
  tenant: string;
  field: Field | undefined;
  difference: Difference;
}

function Value({ tenant, field, difference }: ValueProps) {
  const { from, to } = difference;
  const [isOpen, open] = useState(false);
  const isEmptied = 'to' in difference && to == null;
  if (field?.entity) {
    const titled = (value: unknown): ReactNode => value != null && <RelationText {...{ tenant, field, value }} />;
    return <Sides {...{ isEmptied }} old={titled(from)} now={titled(to)} />;
  }
  const [old, now] = [textOf(field, from), textOf(field, to)];
  const length = Math.max(old?.length ?? 0, now?.length ?? 0);
  if (length <= SHORT) return <Sides {...{ old, now, isEmptied }} />;
  return (
    <>
      {!isOpen && old !== null && now !== null ? (
        <Within {...{ old, now }} />
      ) : (
        <Sides {...{ isEmptied }} old={cut(old, isOpen)} now={cut(now, isOpen)} />
      )}
      <Button kind="quiet" aria-expanded={isOpen} onClick={() => open(!isOpen)}>
        {isOpen ? 'Show less' : `Show all ${counted(length, 'character')}`}
      </Button>
    </>
  );
}

interface SidesProps {
  /** Null or false for none. */
  old: ReactNode;
  now: ReactNode;
  isEmptied: boolean;
}

function Sides({ old, now, isEmptied }: SidesProps) {
  const [hasOld, hasNow] = [old, now].map((side) => side !== null && side !== false);
  return (
    <>
      {hasOld && (
        <del>
          <span aria-hidden="true" className="sign">
            −
          </span>
          <span className="sr-only">from </span>
          {old}
        </del>
      )}
      {hasNow && (
        <ins>
          <span aria-hidden="true" className="sign">
            +
          </span>
          <span className="sr-only">to </span>
          {now}
        </ins>
      )}
      {isEmptied && <span className="dim">{hasOld ? 'emptied' : '—'}</span>}
    </>
  );
}

/** The place where two texts differ, with some of what surrounds it. */
function Within({ old, now }: { old: string; now: string }) {
  const { head, tail } = commonOf(old, now);
  const before = old.slice(Math.max(0, head - AROUND), head);
  const [gone, come] = [old.slice(head, old.length - tail), now.slice(head, now.length - tail)];
  return (
    <p className="diff-within">
      {head > AROUND && '…'}
      {before}
      {gone !== '' && <del>{begun(gone)}</del>}
      {come !== '' && <ins>{begun(come)}</ins>}
      {now.slice(now.length - tail).slice(0, AROUND)}
      {tail > AROUND && '…'}
    </p>
  );
}

/** How much two texts share at their beginnings and ends, in whole characters. */
function commonOf(old: string, now: string): { head: number; tail: number } {
  const most = Math.min(old.length, now.length);
  let head = 0;
  while (head < most && old[head] === now[head]) head += 1;
  if (isHalf(old, head)) head -= 1;
  let tail = 0;
  while (tail < most - head && old.at(-1 - tail) === now.at(-1 - tail)) tail += 1;
  if (isHalf(old, old.length - tail)) tail -= 1;
  return { head, tail };
}

/** Whether the character before this place goes on behind it. */
function isHalf(text: string, at: number): boolean {
  return at > 0 && /[\uD800-\uDBFF]/.test(text[at - 1] ?? '') && at < text.length;
}

const begun = (text: string): string => (text.length > SHORT ? `${text.slice(0, SHORT)}…` : text);
/** The beginning of a text, or as much of all of it as a page takes. */
function cut(text: string | null, isOpen: boolean): string | null {
  if (text === null || !isOpen) return text && begun(text);
  return text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}…` : text;
}

/** Null for no value. */
function textOf(field: Field | undefined, value: unknown): string | null {
  if (value == null) return null;
  if (field === undefined) return shown(value);
  const text = field.type === 'json' ? JSON.stringify(value) : cellText(field, value);
  return field.type === 'json' && text.length > SHORT ? JSON.stringify(value, null, 1) : text;
}
