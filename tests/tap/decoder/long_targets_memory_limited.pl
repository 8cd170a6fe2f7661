# Tests that targets that print long, such as numeric 1e131071, do not fill the memory of the walsender: neither the
# elements of one array, nor those that many rules read.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);
my $user  = $relay->client('7');

sub sql { return $pg->safe_psql('postgres', $_[0]) }

# The largest memory of the walsender so far, in MB.
sub peak
{
    my $pid = sql(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'walsender'});
    slurp_file("/proc/$pid/status") =~ /^VmHWM:\s+(\d+) kB/m or die "no VmHWM\n";
    return $1 / 1024;
}

sql(q{CREATE TABLE t (id int PRIMARY KEY, who numeric[]); CREATE TABLE many (id int PRIMARY KEY, who numeric[]);
    SELECT clairon.watch('t', 'USER', 'who', columns => '{id}');
    SELECT clairon.watch('many', 'USER', 'who', name => 'rule ' || i, columns => '{id}') FROM generate_series(1, 50) AS i;
    INSERT INTO t VALUES (1, '{7,7,8}')});
is(($user->wait_notifications(1))[0]{payload}{after}{id}, 1, 'a row with short targets is delivered');
my $before = peak();
sql(q{INSERT INTO t SELECT 2, array_fill(1e131071::numeric, '{2000}'); INSERT INTO many SELECT 1, array_fill(1e131071::numeric, '{50}');
    INSERT INTO t VALUES (3, '{1e300,7}')});
is(($user->wait_notifications(2))[1]{payload}{after}{id}, 3, 'a long target is left out, and the others receive the row');
cmp_ok(peak() - $before, '<', 50, 'the memory of the walsender does not grow with the targets that are left out');
like(slurp_file($pg->logfile), qr/rule "default" on "t": denied: more than 10000 targets/, 'a row with many long targets is denied and logged');
done_testing();
