# Do watch and notify say that nothing can come of them while wal_level is not logical?
use strict;
use warnings;

use Clairon::Test;
use Test::More;

my $pg = Clairon::Test::postgresql('main', conf => 'wal_level = replica');
$pg->safe_psql('postgres', 'CREATE TABLE t (id int PRIMARY KEY)');

my $hint   = qr/^HINT: +Set wal_level = logical in postgresql\.conf and restart the server\.$/m;
my $watch  = q{SELECT clairon.watch('t', 'ALL')};
my $notify = q{SELECT clairon.notify('USER', '{u1}', '{}', idempotency_key => 'k')};

# What it gives, and what psql says beside.
sub said
{
    my ($sql) = @_;
    my ($code, $out, $err) = $pg->psql('postgres', $sql);
    is($code, 0, "$sql is no error");
    return ($out, $err);
}

my ($out, $err) = said($watch);
like($err, qr/^psql:.*WARNING: +wal_level is insufficient for logical decoding\n.*DETAIL:  The rule is set/m, 'watch warns');
like($err, $hint, 'and says what would be right');
is($pg->safe_psql('postgres', 'SELECT count(*) FROM clairon.rules'), '1', 'the rule is set');
(my $id, $err) = said($notify);
like($err, qr/^psql:.*WARNING: +wal_level is insufficient for logical decoding\n.*DETAIL:  The notification is lost/m, 'notify warns');
like($err, $hint, 'and says what would be right');
($out, $err) = said($notify);
is($out, $id, 'its key is kept');
unlike($err, qr/WARNING/, 'what is not sent anyway is not warned of');

$pg->append_conf('postgresql.conf', 'wal_level = logical');
$pg->restart;
for my $sql ($watch, q{SELECT clairon.notify('USER', '{u1}', '{}')})
{
    ($out, $err) = said($sql);
    unlike($err, qr/WARNING/, 'with wal_level = logical there is nothing to say');
}

done_testing();
