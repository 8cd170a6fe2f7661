# Tests that watch and notify warn if wal_level is not logical.
use strict;
use warnings;

use Clairon::Test;
use Test::More;

my $pg = Clairon::Test::postgresql('main', conf => 'wal_level = replica');
$pg->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY)');

my $hint   = qr/^HINT: +Set wal_level = logical in postgresql\.conf and restart the server\.$/m;
my $watch  = q{SELECT clairon.watch('t', 'ALL')};
my $notify = q{SELECT clairon.notify('USER', '{u1}', '{}', idempotency_key => 'k')};

# Returns the output of a statement, and psql's messages.
sub warning_of
{
    my ($sql) = @_;
    my ($code, $out, $err) = $pg->psql('postgres', $sql);
    is($code, 0, "$sql succeeds");
    return ($out, $err);
}

my ($out, $err) = warning_of($watch);
like($err, qr/^psql:.*WARNING: +wal_level is insufficient for logical decoding\n.*DETAIL:  The rule is set/m, 'watch warns');
like($err, $hint, 'the warning of watch has a hint');
is($pg->safe_psql('postgres', 'SELECT count(*) FROM clairon.rules'), '1', 'the rule is created');
(my $id, $err) = warning_of($notify);
like($err, qr/^psql:.*WARNING: +wal_level is insufficient for logical decoding\n.*DETAIL:  The notification is lost/m, 'notify warns');
like($err, $hint, 'the warning of notify has a hint');
($out, $err) = warning_of($notify);
is($out, $id, 'the idempotency key is kept');
unlike($err, qr/WARNING/, 'a repeat, which sends no notification, causes no warning');

$pg->append_conf('postgresql.conf', 'wal_level = logical');
$pg->restart;
for my $sql ($watch, q{SELECT clairon.notify('USER', '{u1}', '{}')})
{
    ($out, $err) = warning_of($sql);
    unlike($err, qr/WARNING/, 'with wal_level = logical, notify does not warn');
}

done_testing();
