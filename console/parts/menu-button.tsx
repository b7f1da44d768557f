// A button that opens a menu of further actions.
import { Menu } from '@ark-ui/react/menu';
import { Portal } from '@ark-ui/react/portal';
import type { ReactNode } from 'react';
import { Icon, type IconName } from './icon.tsx';

interface Choice {
  key: string;
  label: string;
  icon?: IconName;
  onSelect: () => void;
  isDisabled?: boolean;
}

export function MenuButton({
  label,
  icon,
  choices,
  children,
}: {
  label: string;
  icon?: IconName;
  choices: readonly Choice[];
  children?: ReactNode;
}) {
  return (
    <Menu.Root onSelect={({ value }) => choices.find(({ key }) => key === value)?.onSelect()}>
      <Menu.Trigger
        className={`button plain ${children === undefined ? 'only-icon' : ''}`}
        aria-label={children === undefined ? label : undefined}
        title={label}
      >
        {icon !== undefined && <Icon name={icon} />}
        {children}
      </Menu.Trigger>
      <Portal>
        <Menu.Positioner>
          <Menu.Content className="menu">
            {choices.map((choice) => (
              <Menu.Item key={choice.key} value={choice.key} disabled={choice.isDisabled ?? false}>
                {choice.icon !== undefined && <Icon name={choice.icon} />}
                {choice.label}
              </Menu.Item>
            ))}
          </Menu.Content>
        </Menu.Positioner>
      </Portal>
    </Menu.Root>
  );
}
