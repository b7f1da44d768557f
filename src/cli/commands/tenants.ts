// The tenants of an installation, for its operators: list, get, create, suspend, resume, delete. All commands need the
// super-admin secret or an admin key; the key of a new tenant is shown once.
// Contract: decisions#tenants.
import type { Command } from 'commander';
import { type Call, runs } from '../call.ts';
import type { Row } from '../output.ts';
import { listTenants, TENANTS, tenantPath } from '../tenants.ts';

export function addTenantCommands(program: Command): void {
  const tenants = program
    .command('tenants')
    .description('tenants, for operators: list, get, create, suspend, resume, delete');
  runs(
    tenants
      .command('list')
      .option('--search <text>', 'a part of slug or name')
      .description('list the tenants')
      .addHelpText('after', '\nExample:\n  $ tds tenants list --search acme'),
    list,
  );
  runs(
    tenants
      .command('get')
      .argument('<slug>')
      .description('show a tenant')
      .addHelpText('after', '\nExample:\n  $ tds tenants get acme'),
    async ({ service, output }: Call, slug: string) => {
      const tenant = await service.get<Row>(tenantPath(slug));
      await output.answer(tenant, () => output.members(tenant));
    },
  );
  runs(
    tenants
      .command('create')
      .argument('<slug>')
      .option('--name <text>', 'a name for people; default: the slug')
      .description('create a tenant; prints its first owner key, which is shown once')
      .addHelpText('after', '\nExample:\n  $ tds tenants create acme --name "Acme Ltd"'),
    async ({ service, output, options }: Call<{ name?: string }>, slug: string) => {
      const tenant = await service.post<Row>(TENANTS, { slug, name: options.name ?? slug });
      await output.answer(tenant, () => output.members(tenant));
    },
  );
  for (const [verb, status] of [
    ['suspend', 'suspended'],
    ['resume', 'active'],
  ] as const) {
    runs(
      tenants
        .command(verb)
        .argument('<slug>')
        .description(`${verb} a tenant`)
        .addHelpText('after', `\nExample:\n  $ tds tenants ${verb} acme`),
      async ({ service, output }: Call, slug: string) => {
        const tenant = await service.patch(tenantPath(slug), { status });
        await output.answer(tenant, () => output.note(`${slug} is ${status}`));
      },
    );
  }
  runs(
    tenants
      .command('delete')
      .argument('<slug>')
      .requiredOption('--confirm <slug>', 'repeats the slug')
      .description('delete a tenant with everything in it')
      .addHelpText('after', '\nExample:\n  $ tds tenants delete trial --confirm trial'),
    async ({ service, output, options }: Call<{ confirm: string }>, slug: string) => {
      const answer = await service.delete(tenantPath(slug), { confirm: options.confirm });
      await output.answer(answer, () => output.note(`${slug} is deleted`));
    },
  );
}

async function list({ service, output, options }: Call<{ search?: string }>): Promise<void> {
  const tenants = await Array.fromAsync(listTenants(service, options.search));
  const rows = tenants.map(({ counts, ...tenant }) => ({ ...tenant, ...counts }));
  await output.answer(tenants, () => output.table(rows, ['slug', 'name', 'status', 'entities', 'records', 'users']));
}
