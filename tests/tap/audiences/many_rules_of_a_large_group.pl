# Tests a row that many rules of its table send to a group with many connected users: it costs the relay no more than as
# many rows of one rule.
use strict;
use warnings;

use Clairon::Test qw(amount);
use Clairon::Test::EventStream;
use Clairon::Test::Neighbour;
use Test::More;

my ($RULES, $USERS, $ROUNDS) = (100, amount(100, 1000), 3);
my $pg        = Clairon::Test::postgresql('main');
my $store     = Clairon::Test::store();
my $relay     = Clairon::Test::relay($pg, $store);
my $neighbour = Clairon::Test::Neighbour->new($pg, $relay);
$pg->safe_psql('postgres', "INSERT INTO clairon.member SELECT 'TEAM', 'large', 'u' || u FROM generate_series(1, $USERS) u");
$neighbour->run_as('mallory', qq{
    CREATE TABLE mallory.one (id int, team text); CREATE TABLE mallory.many (LIKE mallory.one);
    SELECT clairon.watch('mallory.one', 'TEAM', 'team');
    SELECT count(clairon.watch('mallory.many', 'TEAM', 'team', name => 'r' || i)) FROM generate_series(1, $RULES) i});
my @streams = map { Clairon::Test::EventStream->open($relay, "u$_") } 1 .. $USERS;
$neighbour->delay_of_row;

# Returns the relay's CPU time in seconds for $RULES notifications to each user, the least of some rounds.
sub cost
{
    my ($table, $rows) = @_;
    my $least;
    for my $round (1 .. $ROUNDS)
    {
        my $before = Clairon::Test::Neighbour::cpu_times($relay->pid)->{run};
        $neighbour->run_as('mallory', "INSERT INTO mallory.$table SELECT $round, 'large' FROM generate_series(1, $rows)");
        for my $stream (@streams)
        {
            $stream->wait_message('msg') for 1 .. $RULES;
        }
        my $used = Clairon::Test::Neighbour::cpu_times($relay->pid)->{run} - $before;
        $least = $used if !defined $least || $used < $least;
    }
    note sprintf '%s: %.1f us of CPU a delivery', $table, 1e6 * $least / $RULES / $USERS;
    return $least;
}

my $honest = cost('one', $RULES);
cmp_ok(cost('many', 1), '<', 2 * $honest, 'many rules cost as much as many rows');
my %ids = map { $_->{n}{metadata}{id} => 1 } grep { $_->{t} eq 'msg' } @{ $streams[-1]{messages} };
is(keys %ids, 2 * $ROUNDS * $RULES, 'each of them is received once');
done_testing();
