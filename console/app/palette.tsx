// The palette (Ctrl+K): pages, entities, "New record in ...", records by search, and a pasted id. The first hit is always
// selected; Enter opens it, with Ctrl in a new tab.
import { useQuery } from '@tanstack/react-query';
import { type KeyboardEvent, useEffect, useId, useMemo, useRef, useState } from 'react';
import { entitiesQuery } from '../api/queries.ts';
import { Dialog } from '../parts/dialog.tsx';
import { Icon, type IconName } from '../parts/icon.tsx';
import { PAGES, pathTo } from './pages.ts';
import { useRecordHits } from './palette-records.ts';
import { mayOpen, type Rights } from './rights.ts';
import { go } from './router.tsx';

export interface Hit {
  id: string;
  label: string;
  detail: string;
  icon: IconName;
  path: string;
}

const MOST_HITS = 30;

interface Props {
  tenant: string | null;
  rights: Rights;
  onClose: () => void;
  onKeys: () => void;
}

export function Palette({ tenant, rights, onClose, onKeys }: Props) {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLInputElement>(null);
  const fixed = useFixedHits(tenant, rights);
  const { hits: records, isSearching } = useRecordHits(tenant, rights, text);
  const hits = useMemo(() => {
    const words = text.toLowerCase().replace(/^>/, '').split(/\s+/).filter(Boolean);
    const named = fixed.filter(({ label, detail }) =>
      words.every((word) => `${label} ${detail}`.toLowerCase().includes(word)),
    );
    return [...named, ...records].slice(0, MOST_HITS);
  }, [fixed, records, text]);
  const selected = Math.min(at, Math.max(0, hits.length - 1));
  useEffect(() => {
    list.current?.children[selected]?.scrollIntoView({ block: 'nearest' });
  }, [selected]);
  const open = (hit: Hit, inNewTab: boolean): void => {
    onClose();
    if (inNewTab) window.open(hit.path, '_blank', 'noopener');
    else go(hit.path);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key === '?' && text === '') {
      event.preventDefault();
      onKeys();
    } else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault();
      const step = event.key === 'ArrowDown' ? 1 : -1;
      setAt((selected + step + hits.length) % Math.max(1, hits.length));
    } else if (event.key === 'Enter') {
      event.preventDefault();
      const hit = hits[selected];
      if (hit !== undefined) open(hit, event.ctrlKey || event.metaKey);
    }
  };
  return (
    <Dialog title="Search or go to" onClose={onClose} initialFocus={field}>
      <input
        ref={field}
        className="input"
        role="combobox"
        aria-label="Search or go to"
        aria-expanded="true"
        aria-controls={id}
        aria-activedescendant={hits.length === 0 ? undefined : `${id}-${selected}`}
        placeholder="Page, entity, record or id"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={onKeyDown}
      />
      <div className="choices palette" role="listbox" aria-label="Results" id={id} ref={list}>
        {hits.map((hit, index) => (
          <div
            key={hit.id}
            id={`${id}-${index}`}
            role="option"
            aria-selected={index === selected}
            onMouseMove={() => setAt(index)}
            onClick={(event) => open(hit, event.ctrlKey || event.metaKey)}
          >
            <Icon name={hit.icon} />
            <span className="grow ellipsis">{hit.label}</span> <span className="caption ellipsis">{hit.detail}</span>
          </div>
        ))}
      </div>
      <p className="caption" role="status">
        {isSearching ? 'Searching…' : hits.length === 0 ? `Nothing matches “${text}”` : ''}
      </p>
    </Dialog>
  );
}

function useFixedHits(tenant: string | null, rights: Rights): Hit[] {
  const { data: entities = [] } = useQuery({ ...entitiesQuery(tenant ?? ''), enabled: tenant !== null });
  return useMemo(() => {
    const pages = PAGES.filter((page) => page.rail !== undefined && mayOpen(page, rights))
      .filter(({ path }) => tenant !== null || !path.includes('$tenant'))
      .map(({ name, path, rail }) => ({
        id: path,
        label: name,
        detail: 'page',
        icon: rail?.icon ?? ('layers' as IconName),
        path: pathTo(path, { tenant: tenant ?? '' }),
      }));
    const readable = entities.filter(({ name }) => rights.may('read', name));
    const lists = readable.map(
      ({ name }): Hit => ({
        id: `list ${name}`,
        label: name,
        detail: 'records',
        icon: 'table-2',
        path: `/app/t/${tenant}/records/${name}`,
      }),
    );
    const creations = readable
      .filter(({ name }) => rights.may('create', name))
      .map(
        ({ name }): Hit => ({
          id: `new ${name}`,
          label: `New record in ${name}`,
          detail: 'action',
          icon: 'plus',
          path: `/app/t/${tenant}/records/${name}?new=1`,
        }),
      );
    return [...pages, ...lists, ...creations];
  }, [entities, rights, tenant]);
}
