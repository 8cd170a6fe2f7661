# Can nobody but a superuser make the extension, or have a hand in the schema it fills?
use strict;
use warnings;

use Clairon::Test;
use Test::More;

my $pg = Clairon::Test::postgresql('main', extension => 0);
$pg->safe_psql('postgres', q{
    CREATE ROLE alice LOGIN;
    CREATE DATABASE hers OWNER alice;
    CREATE DATABASE shared});

sub refused
{
    my ($database, $sql, $error, $name) = @_;
    my ($code, $out, $err) = $pg->psql($database, $sql);
    isnt($code, 0, $name);
    return like($err, $error, 'and it says why');
}

my $create = 'CREATE EXTENSION clairon';
refused('hers', "SET ROLE alice; $create", qr/permission denied to create extension/, "a database's owner cannot");

$pg->safe_psql('hers', 'SET ROLE alice; CREATE SCHEMA clairon');
refused('hers', $create, qr/schema "clairon" exists, but is not empty or not reserved for superusers/, "not into a schema of another's");

$pg->safe_psql('shared', 'CREATE SCHEMA clairon; GRANT CREATE ON SCHEMA clairon TO alice');
refused('shared', $create, qr/not reserved for superusers/, 'nor into one that others may fill');
$pg->safe_psql('shared', q{
    SET ROLE alice;
    CREATE FUNCTION clairon.choice(text, text, text) RETURNS int2 LANGUAGE sql AS 'SELECT 0::int2';
    RESET ROLE;
    REVOKE CREATE ON SCHEMA clairon FROM alice});
refused('shared', $create, qr/not empty/, 'nor into one that others have filled');

$pg->safe_psql('shared', "DROP FUNCTION clairon.choice(text, text, text); $create; DROP EXTENSION clairon; $create");
pass('an empty one, as DROP EXTENSION leaves it, will do');

done_testing();
