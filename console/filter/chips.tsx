// The filter of a list as chips, one for each condition that must hold; each can be taken away, and a panel opens with
// the builder.
import { useState } from 'react';
import type { Entity } from '../api/answers.ts';
import { useParams } from '../app/params.ts';
import { Button } from '../parts/button.tsx';
import { Icon } from '../parts/icon.tsx';
import { Builder } from './builder.tsx';
import { useCondition } from './condition.tsx';
import { printTree, type Tree } from './tree.ts';
import { sayTree } from './words.ts';

interface Props {
  entity: Entity;
  value: string;
  onChange: (text: string) => void;
}

export function FilterChips({ entity, value, onChange }: Props) {
  const { tenant } = useParams();
  const [isOpen, open] = useState(false);
  const { tree, choices, problem, build, isUnfinished } = useCondition(entity, value, onChange);
  const parts: readonly Tree[] = tree === null ? [] : tree.kind === 'and' ? tree.parts : [tree];
  const without = (at: number): void => {
    const rest = parts.filter((_, index) => index !== at);
    onChange(rest.length === 0 ? '' : printTree(rest.length === 1 ? (rest[0] as Tree) : { kind: 'and', parts: rest }));
  };
  if (problem !== undefined) return null;
  return (
    <div className="filter-chips">
      <div className="row chips">
        {!isOpen &&
          parts.map((part, at) => {
            const text = sayTree(part, choices);
            return (
              <span className="chip" key={text}>
                <button type="button" className="chip-text ellipsis" title={text} onClick={() => open(true)}>
                  {text}
                </button>
                <button type="button" aria-label={`Remove ${text}`} onClick={() => without(at)}>
                  <Icon name="x" size={14} />
                </button>
              </span>
            );
          })}
        <Button kind="quiet" icon={isOpen ? 'chevron-up' : 'plus'} aria-expanded={isOpen} onClick={() => open(!isOpen)}>
          {isOpen ? 'Close builder' : 'Add filter'}
        </Button>
      </div>
      {isOpen && <Builder tree={tree} choices={choices} tenant={tenant} label="Filter builder" onChange={build} />}
      {isOpen && isUnfinished && (
        <p className="caption" role="status">
          The list updates once every condition has a value.
        </p>
      )}
    </div>
  );
}
