// Tabs of a page. Which one is shown stands in the link, so each is a link of its own.
import { Tabs as Ark } from '@ark-ui/react/tabs';
import type { ReactNode } from 'react';
import { useUrlState } from '../app/router.tsx';

interface Tab {
  key: string;
  label: string;
  content: () => ReactNode;
}

/** The first tab is shown without a parameter. `name` is the member of the query string. */
export function Tabs({ tabs, label, name = 'tab' }: { tabs: readonly Tab[]; label: string; name?: string }) {
  const first = tabs[0]?.key ?? '';
  const [state, set] = useUrlState({ [name]: first });
  const chosen = tabs.some(({ key }) => key === state[name]) ? (state[name] as string) : first;
  return (
    <Ark.Root
      className="tabs"
      value={chosen}
      onValueChange={({ value }) => set({ [name]: value })}
      lazyMount
      unmountOnExit
    >
      <Ark.List aria-label={label}>
        {tabs.map((tab) => (
          <Ark.Trigger key={tab.key} value={tab.key}>
            {tab.label}
          </Ark.Trigger>
        ))}
      </Ark.List>
      {tabs.map((tab) => (
        <Ark.Content key={tab.key} value={tab.key}>
          {tab.content()}
        </Ark.Content>
      ))}
    </Ark.Root>
  );
}
