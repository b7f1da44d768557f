// Completion for bash, zsh and fish: `tds complete <shell>` prints the script, generated from the tree of commands. Names of
// profiles are completed; completion sends no requests to a service.
// The scripts call the program by its name, which must be on PATH or an alias.
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
