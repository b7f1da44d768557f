// Completion for bash, zsh and fish: `tds complete <shell>` prints the script, made from the tree of commands. Profiles are completed
// by their names; nothing is asked of a service while somebody types.
// Scripts call the program by its name, which has to be on PATH or an alias.
import tab from '@bomb.sh/tab/commander';
import type { Command } from 'commander';
import { readProfiles } from './profiles.ts';

export function addCompletion(program: Command): void {
  const completion = tab(program);
  const profile = completion.options.get('profile');
  if (profile !== undefined) {
    profile.handler = (complete) => {
      for (const [name, { url }] of Object.entries(readProfiles().profiles)) complete(name, url);
    };
  }
}
