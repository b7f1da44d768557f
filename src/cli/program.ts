// The tree of commands: the global options, and the groups, each in its own file below commands/. Help, suggestions for misspelt
// names and the completion scripts are derived from the tree.
// Wrong usage ends with code 2.
import { Command, type Help } from 'commander';
import { addAccessCommands } from './commands/access.ts';
import { addBackupCommands } from './commands/backup.ts';
import { addDoctor } from './commands/doctor.ts';
import { addEntityCommands } from './commands/entities.ts';
import { addLiveCommands } from './commands/live.ts';
import { addLoginCommands } from './commands/login.ts';
import { addOperationCommands } from './commands/operations.ts';
import { addRecordCommands } from './commands/records.ts';
import { addTypes } from './commands/schema-types.ts';
import { addTenantCommands } from './commands/tenants.ts';
import { addTransferCommands } from './commands/transfer.ts';
import { addCompletion } from './completion.ts';
import { versionOfPackage } from './version.ts';

const HELP_WIDTH = 100;

const FOOTER = `
Address, tenant and credential come from --url and --tenant, else from TDS_URL, TDS_TENANT and TDS_KEY, else from the profile
that \`tds login\` has stored. Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused by the service.`;

/** Builds the tree of commands. With `isJson`, usage errors are left to the caller, who reports them as an object. */
export function buildProgram(isJson = false): Command {
  const program = new Command('tds')
    .description('Tenant Data Service: records, changes, files, webhooks and backups from the command line')
    .option('--url <address>', 'address of the service')
    .option('--tenant <slug>', 'the tenant to work in')
    .option('--profile <name>', 'a stored profile other than the current one')
    .option('--json', 'print JSON for programs; one object a line where it is a stream')
    .version(versionOfPackage(), '--version', 'the version of this program')
    .exitOverride()
    .configureOutput({ outputError: (text, write) => void (isJson || write(text)) })
    .showSuggestionAfterError()
    .configureHelp({ showGlobalOptions: true, minWidthToWrap: 40, helpWidth: HELP_WIDTH } as Partial<Help>)
    .addHelpText('after', FOOTER);
  program.commandsGroup('Sign in:');
  addLoginCommands(program);
  program.commandsGroup('Data:');
  addEntityCommands(program);
  addRecordCommands(program);
  addTransferCommands(program);
  addTypes(program);
  program.commandsGroup('Live:');
  addLiveCommands(program);
  program.commandsGroup('Access:');
  addAccessCommands(program);
  program.commandsGroup('Operation:');
  addTenantCommands(program);
  addOperationCommands(program);
  addBackupCommands(program);
  addDoctor(program);
  program.commandsGroup('Shell:');
  addCompletion(program);
  return program;
}
