# Tests a row with thousands of targets of a composite audience, to connected users who belong to all of their groups, or
# to one part of each target: it costs the relay little more than as many targets of a plain audience.
use strict;
use warnings;

use Clairon::Test qw(amount);
use Clairon::Test::EventStream;
use Clairon::Test::Neighbour;
use Test::More;

my ($GROUPS, $USERS, $ROWS) = (100, amount(60, 100), 4);
my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
$pg->safe_psql('postgres', qq{
    CREATE TABLE plain (id serial PRIMARY KEY, targets text[]);
    CREATE TABLE whole (id serial PRIMARY KEY, structures text[], others text[]); CREATE TABLE half (LIKE whole INCLUDING ALL);
    SELECT clairon.watch('plain', 'TEAM', 'targets'); SELECT clairon.watch('whole', 'STRUCTURE+ROLE', 'structures+others');
    SELECT clairon.watch('half', 'STRUCTURE+JOB', 'structures+others');
    -- Every user belongs to each structure and role; other users, who are connected too, have the jobs.
    INSERT INTO clairon.member SELECT kind, name || g, 'u' || u FROM generate_series(1, $USERS) u, generate_series(1, $GROUPS) g,
        (VALUES ('STRUCTURE', 's'), ('ROLE', 'r')) AS kinds (kind, name);
    INSERT INTO clairon.member SELECT 'JOB', 'j' || g, 'v' || u FROM generate_series(1, $USERS) u, generate_series(1, $GROUPS) g;
    INSERT INTO clairon.member VALUES ('TEAM', 't1', 'u1')});
my $relay  = Clairon::Test::relay($pg, $store);
my $client = $relay->client('u1');
my @streams = map { my $name = $_; map { Clairon::Test::EventStream->open($relay, "$name$_") } 2 .. $USERS } qw(u v);

# Waits for a row that follows all others.
my $marker = 5000;
sub send_marker
{
    my $id = ++$marker;
    $pg->safe_psql('postgres', "INSERT INTO plain VALUES ($id, '{t1}')");
    $client->run_until('the last row arrives', sub { grep { $_->{payload}{after}{id} == $id } $client->notifications });
    return;
}

# Returns the relay's CPU time in ms for a row of this table.
sub cost
{
    my ($table, $values) = @_;
    my $cpu = Clairon::Test::Neighbour::cpu_times($relay->pid)->{run};
    $pg->safe_psql('postgres', "INSERT INTO $table SELECT $_, $values") for 1000 .. 999 + $ROWS;
    send_marker();
    my $ms = 1000 * (Clairon::Test::Neighbour::cpu_times($relay->pid)->{run} - $cpu) / $ROWS;
    note sprintf '%s: %.1f ms of CPU a row', $table, $ms;
    is(scalar(grep { $_->{metadata}{source} eq $table && $_->{payload}{after}{id} < 5000 } $client->notifications), $table eq 'whole' ? $ROWS : 0, "$table: the right rows are received, once");
    return $ms;
}

sub names { my ($letter) = @_; return "(SELECT array_agg('$letter' || g) FROM generate_series(1, $GROUPS) g)" }
send_marker();
my $honest = cost('plain', "(SELECT array_agg('x' || g) FROM generate_series(1, $GROUPS * $GROUPS) g)");
cmp_ok(cost('whole', names('s') . ', ' . names('r')), '<', 8 * $honest, 'users who belong to all groups');
cmp_ok(cost('half', names('s') . ', ' . names('j')), '<', 8 * $honest, 'users who belong to one part of each target');

done_testing();
