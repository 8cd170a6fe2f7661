# Tests that only a superuser can create the extension or modify its schema.
use strict;
use warnings;

use Clairon::Test;
use Test::More;

my $pg = Clairon::Test::postgresql('main', extension => 0);
$pg->safe_psql('postgres', q{
    CREATE ROLE alice LOGIN;
    CREATE DATABASE hers OWNER alice;
    CREATE DATABASE shared});

sub check_rejected
{
    my ($database, $sql, $error, $name) = @_;
    my ($code, $out, $err) = $pg->psql($database, $sql);
    isnt($code, 0, "$name is rejected");
    return like($err, $error, "$name is rejected with the reason");
}

my $create = 'CREATE EXTENSION clairon';
check_rejected('hers', "SET ROLE alice; $create", qr/permission denied to create extension/, "CREATE EXTENSION by a database's owner");

$pg->safe_psql('hers', 'SET ROLE alice; CREATE SCHEMA clairon');
check_rejected('hers', $create, qr/schema "clairon" already exists and is not empty, or is not reserved for superusers/, 'CREATE EXTENSION into a schema of another role');

$pg->safe_psql('shared', 'CREATE SCHEMA clairon; GRANT CREATE ON SCHEMA clairon TO alice');
check_rejected('shared', $create, qr/not reserved for superusers/, 'CREATE EXTENSION into a schema that others can modify');
$pg->safe_psql('shared', q{
    SET ROLE alice;
    CREATE FUNCTION clairon.choice(text, text, text) RETURNS int2 LANGUAGE sql AS 'SELECT 0::int2';
    RESET ROLE;
    REVOKE CREATE ON SCHEMA clairon FROM alice});
check_rejected('shared', $create, qr/not empty/, 'CREATE EXTENSION into a schema with existing objects');

$pg->safe_psql('shared', "DROP FUNCTION clairon.choice(text, text, text); $create; DROP EXTENSION clairon; $create");
pass('an empty schema that DROP EXTENSION has left is accepted');

$pg->safe_psql('shared', q{DROP EXTENSION clairon; DROP SCHEMA clairon; CREATE SCHEMA clairon;
    ALTER DEFAULT PRIVILEGES GRANT CREATE ON SCHEMAS TO alice, PUBLIC; CREATE EXTENSION clairon});
is($pg->safe_psql('shared', q{SELECT has_schema_privilege('alice', 'clairon_internal', 'CREATE'), has_schema_privilege('alice', 'clairon_internal', 'USAGE')}),
    'f|t', 'default privileges allow no other role to create objects in the internal schema');

# A role that can write clairon.rule and call clairon.rows could read all tables.
$pg->safe_psql('shared', q{DROP EXTENSION clairon;
    ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO alice, PUBLIC; ALTER DEFAULT PRIVILEGES GRANT ALL ON FUNCTIONS TO alice; CREATE EXTENSION clairon});
my @held = (
    q{SELECT string_agg(relname, ',' ORDER BY relname) FROM pg_class WHERE relnamespace = 'clairon'::regnamespace AND relkind IN ('r', 'v')
        AND has_table_privilege('alice', oid, 'SELECT, INSERT, UPDATE, DELETE')},
    q{SELECT string_agg(oid::regproc::text, ',' ORDER BY oid::regproc::text) FROM pg_proc
        WHERE pronamespace IN ('clairon'::regnamespace, 'clairon_internal'::regnamespace) AND has_function_privilege('alice', oid, 'EXECUTE')});
my @by_default = map { $pg->safe_psql('shared', $_) } @held;
$pg->safe_psql('shared', q{DROP EXTENSION clairon; ALTER DEFAULT PRIVILEGES REVOKE ALL ON TABLES FROM alice, PUBLIC;
    ALTER DEFAULT PRIVILEGES REVOKE ALL ON FUNCTIONS FROM alice; CREATE EXTENSION clairon});
is_deeply(\@by_default, [ map { $pg->safe_psql('shared', $_) } @held ], 'default privileges grant nothing on tables and functions of the extension');
is($by_default[0], 'rules', 'of its relations, other roles read only the view of rules');

done_testing();
