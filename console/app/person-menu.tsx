// Who is signed in, the theme, the keyboard map, and "Sign out".
import { Menu } from '@ark-ui/react/menu';
import { Portal } from '@ark-ui/react/portal';
import { session } from '../api/session.ts';
import { signOut } from '../api/sign-in.ts';
import { useStore } from '../api/store.ts';
import { sentenceOf } from '../parts/error-panel.tsx';
import { Icon, type IconName } from '../parts/icon.tsx';
import { sayError } from '../parts/toast.tsx';
import { go } from './router.tsx';
import { choose, type Theme, theme } from './theme-choice.ts';

const THEMES: readonly { value: Theme; label: string; icon: IconName }[] = [
  { value: 'system', label: 'System theme', icon: 'monitor' },
  { value: 'light', label: 'Light', icon: 'sun' },
  { value: 'dark', label: 'Dark', icon: 'moon' },
];

/** The next person begins at the start, not where this one was. */
async function leave(): Promise<void> {
  await signOut().catch((cause: unknown) => sayError({ title: sentenceOf(cause) }));
  go('/app', { replace: true });
}

export function PersonMenu({ onKeys, tenant }: { onKeys: () => void; tenant: string | null }) {
  const current = useStore(session);
  const chosen = useStore(theme);
  const name = current?.name ?? '';
  const select = (value: string): void => {
    if (value === 'sign-out') void leave();
    else if (value === 'keys') onKeys();
    else if (value === 'account') go(`/app/t/${tenant}/account`);
  };
  return (
    <Menu.Root onSelect={({ value }) => select(value)} positioning={{ placement: 'bottom-end' }}>
      <Menu.Trigger className="person" aria-label={`${name}, menu`}>
        <Icon name="user" />
      </Menu.Trigger>
      <Portal>
        <Menu.Positioner>
          <Menu.Content className="menu">
            <div className="menu-head">
              <strong className="ellipsis">{name}</strong>
              <span className="caption">
                {[current?.email === name ? null : current?.email, current?.role].filter(Boolean).join(' · ') ||
                  'Platform'}
              </span>
            </div>
            {current?.kind === 'user' && tenant !== null && (
              <Menu.Item value="account">
                <Icon name="user" /> Account and sessions
              </Menu.Item>
            )}
            <Menu.RadioItemGroup value={chosen} onValueChange={({ value }) => choose(value as Theme)}>
              {THEMES.map(({ value, label, icon }) => (
                <Menu.RadioItem key={value} value={value} closeOnSelect={false}>
                  <Icon name={icon} />
                  <span className="grow">{label}</span>
                  {chosen === value && <Icon name="check" />}
                </Menu.RadioItem>
              ))}
            </Menu.RadioItemGroup>
            <Menu.Item value="keys">
              <Icon name="keyboard" /> <span className="grow">Keyboard shortcuts</span> <kbd>?</kbd>
            </Menu.Item>
            <Menu.Item value="sign-out">
              <Icon name="log-out" /> Sign out
            </Menu.Item>
          </Menu.Content>
        </Menu.Positioner>
      </Portal>
    </Menu.Root>
  );
}
