# Tests that retries are on time while pairs of another table owner are due again and again: members of a group who read
# but do not acknowledge, with the shortest ack timeout.
use strict;
use warnings;

use Clairon::Test qw(amount wait_until);
use Clairon::Test::Neighbour;
use Clairon::Test::RawSocket;
use IO::Select;
use List::Util qw(max);
use Test::More;
use Time::HiRes qw(time);

my ($MEMBERS, $ROWS, $RETRIES) = (200, amount(100, 1000), 3);
my $pg        = Clairon::Test::postgresql('main', conf => 'autovacuum = off');
my $store     = Clairon::Test::store();
my $relay     = Clairon::Test::relay($pg, $store, conf => {
    'delivery.window' => 10_000, 'delivery.backoff_base' => '100ms', 'feed.owner_pairs' => 1_000_000_000 });
my $neighbour = Clairon::Test::Neighbour->new($pg, $relay, store => $store);

$pg->safe_psql('postgres', "INSERT INTO clairon.member SELECT 'TEAM', 'all', 'm' || i FROM generate_series(1, $MEMBERS) i");
my @members = map { Clairon::Test::RawSocket->user($relay, "m$_") } 1 .. $MEMBERS;
my $reader  = fork // die "could not fork: $!\n";
if (!$reader)
{
    my $readable = IO::Select->new(map { $_->{link} } @members);
    while (my @ready = $readable->can_read) { sysread $_, my $bytes, 1 << 20 or $readable->remove($_) for @ready }
    POSIX::_exit(0);
}

my $often = q{ack_required => true, ack_timeout => '1 s', backoff => 'FIXED', retry_limit => 100};
$neighbour->run_as('alice', "CREATE TABLE alice.task (id serial PRIMARY KEY, owner text); SELECT clairon.watch('alice.task', 'USER', 'owner', $often)");
for my $case ([ seldom => q{ack_required => true, ack_timeout => '1 h'} ], [ often => $often ])
{
    my ($name, $options) = @$case;
    $neighbour->run_as('mallory', "CREATE TABLE mallory.$name (id int, team text); SELECT clairon.watch('mallory.$name', 'TEAM', 'team', $options)");
}
my $carol = $relay->client('carol');

# Returns the longest time between two deliveries of a task, which carol acknowledges after $RETRIES retries.
sub longest_interval
{
    my ($what) = @_;
    my $checked = @{ $carol->{messages} };
    my @times;
    $neighbour->run_as('alice', q{INSERT INTO alice.task (owner) VALUES ('carol')});
    my $row = $neighbour->run_as('alice', 'SELECT max(id) FROM alice.task');
    $carol->run_until("$RETRIES retries are delivered", sub {
        my $messages = $carol->{messages};
        for (; $checked < @$messages; $checked++)
        {
            push @times, time if $messages->[$checked]{t} eq 'msg' && $messages->[$checked]{n}{payload}{after}{id} == $row;
        }
        return @times > $RETRIES;
    }, 3 * $Clairon::Test::SECONDS);
    $carol->ack(($carol->notifications)[-1]{metadata}{id});
    my @intervals = map { $times[$_] - $times[ $_ - 1 ] } 1 .. $#times;
    diag("$what: the intervals between retries of the neighbour are " . join ', ', map { sprintf '%.2f s', $_ } @intervals);
    return max @intervals;
}

sub add_rows { my ($table) = @_; return $neighbour->run_as('mallory', "INSERT INTO mallory.$table SELECT i, 'all' FROM generate_series(1, $ROWS) i") }

add_rows('seldom');
wait_until('all rows are delivered to all members', sub { $store->execute('ZCARD', $store->shared('due')) == $MEMBERS * $ROWS });
my $honest = longest_interval('members whose ack timeout is long');
add_rows('often');
wait_until('retries have begun', sub { $relay->metric('clairon_retries_total') > 10 });
my ($attack, $limit) = (0, 2 * $honest + 1);
# A busy machine may delay a retry, but the attack delays all.
for (1 .. 3)
{
    $attack = longest_interval('members whose ack timeout is short');
    last if $attack <= $limit;
}
cmp_ok($attack, '<=', $limit, 'retries of a neighbour are on time');
is($relay->metric('clairon_denied_total{reason="pairs"}'), 0, 'nothing is denied');
cmp_ok($relay->metric('clairon_retries_throttled_total'), '>', 0, 'retries of the owner with many due pairs are throttled');
kill 'KILL', $reader;
done_testing();
