# Tests two devices of one user with small in-flight windows: each device receives all notifications once and in order,
# also those that the other device acknowledged, and `acked` behind them.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true)});
my $store  = Clairon::Test::store();
my @relays = (Clairon::Test::relay($pg, $store), Clairon::Test::relay(undef, $store, roles => 'gate'));

sub insert { my ($from, $to, $user) = @_;
    return $pg->safe_psql('postgres', "INSERT INTO t SELECT i, '$user' FROM generate_series($from, $to) i") }
sub rows { my ($client) = @_; return map { $_->{payload}{after}{id} } $client->notifications }
sub ack_all { my ($client) = @_;
    my @ids = map { $_->{metadata}{id} } $client->notifications;
    return @ids ? $client->ack(@ids) : undef }
sub all_acked { return wait_until('all notifications are acknowledged', sub { $store->pending == 0 }) }

# A device is disconnected while the other device acknowledges more notifications than an in-flight window contains.
my $phone = $relays[0]->client('u1');
my $pos   = $phone->pos;
insert(1, 40, 'u1');
$phone->run_until('all rows arrive', sub { rows($phone) == 40 });
ack_all($phone);
all_acked();
for my $i (0, 1)
{
    my $relay = $relays[$i];
    my $desktop = $relay->client('u1', win => 4, pos => $pos);
    is($desktop->wait_for('connected')->{resumed}, JSON::true, 'the session resumes');
    $desktop->run_until('missed rows arrive', sub { rows($desktop) >= 40 + $i || $desktop->gaps });
    is_deeply([ rows($desktop) ], [ 1 .. 40, (50) x $i ], 'the session receives all missed rows in order, although they are acknowledged');
    is($desktop->gaps, '', 'the session receives no gap');
    insert(50 + $i, 50 + $i, 'u1');
    $desktop->run_until('the new row arrives', sub { rows($desktop) == 41 + $i });
    pass('acknowledged rows do not occupy the in-flight window');
    ack_all($desktop);
    $desktop->close;
}
all_acked();

# Both devices are connected, and one device has a full in-flight window when the other device acknowledges.
sub round_of
{
    my ($relay, $first) = @_;
    my $user = 'u' . $relay->{port};
    my ($quick, $slow) = ($relays[0]->client($user), $relay->client($user, win => 3));
    my $read = $relay->metric('clairon_hub_notifications_total') // 0;
    insert($first + 1, $first + 10, $user);
    $quick->run_until('all rows arrive', sub { rows($quick) == 10 });
    $slow->run_until('the in-flight window is full', sub { rows($slow) >= 3 });
    wait_until('all rows are offered', sub { $relay->metric('clairon_hub_notifications_total') >= $read + 10 });
    ack_all($quick);
    all_acked();
    insert($first + 11, $first + 11, $user);
    $slow->run_until('the next row arrives', sub { grep { $_ == $first + 11 } rows($slow) });
    # Before the slow device acknowledges them too: its own acks need no reply.
    $slow->run_until('the other rows are followed by acked', sub { !grep { $_ != $first + 11 } unfollowed($slow) });
    ack_all($_) for $quick, $slow;
    all_acked();
    my $result = join ' ', $slow->gaps, rows($slow);
    $_->close for $quick, $slow;
    return $result eq join(' ', '', $first + 1 .. $first + 11) ? () : $result;
}

# Returns the rows that no `acked` follows.
sub unfollowed
{
    my ($client) = @_;
    my %row;
    for my $message (@{ $client->{messages} })
    {
        $row{ $message->{n}{metadata}{id} } = $message->{n}{payload}{after}{id} if $message->{t} eq 'msg';
        delete @row{ @{ $message->{ids} } } if $message->{t} eq 'acked';
    }
    return values %row;
}

for my $i (0, 1)
{
    is_deeply([ map { round_of($relays[$i], 1000 * (1 + $i) + 20 * $_) } 0 .. 9 ], [], 'each round delivers all rows in order, and acked behind them');
}

# Rows that another device acknowledged are read from the stream, in commit order with those that are still pending.
my $quick = $relays[0]->client('u5');
$pos = $quick->pos;
insert(251, 256, 'u5');
$quick->run_until('all rows arrive', sub { rows($quick) == 6 });
$quick->ack(map { $_->{metadata}{id} } grep { $_->{payload}{after}{id} > 253 } $quick->notifications);
wait_until('three acks are stored', sub { $store->pending == 3 });
my $behind = $relays[1]->client('u5', win => 2, pos => $pos);
is($behind->wait_for('connected')->{resumed}, JSON::true, 'the session resumes');
$behind->run_until('the in-flight window is full', sub { rows($behind) == 2 });
ack_all($behind);
$behind->run_until('acked follows the rows of the other device', sub { rows($behind) == 6 && 3 == unfollowed($behind) });
is_deeply([ rows($behind) ], [ 251 .. 256 ], 'the session receives all rows in commit order');
is_deeply([ sort { $a <=> $b } unfollowed($behind) ], [ 251 .. 253 ], 'acked follows what the other device acknowledged');
is($behind->gaps, '', 'there is no gap');
ack_all($behind);
all_acked();

# Both devices acknowledge each notification when it arrives: there are no duplicates, although the store's replies are
# outdated when they arrive.
my @both = map { $_->client('u3', win => 3) } @relays;
insert(301, 400, 'u3');
my @at = (0, 0);
wait_until('all notifications are acknowledged', sub {
    for my $i (0, 1)
    {
        my @notifications = $both[$i]->notifications;
        $both[$i]->ack($notifications[ $at[$i]++ ]{metadata}{id}) while $at[$i] < @notifications;
        my $ticks = 0;
        $both[$i]->run_until('one loop iteration has passed', sub { $ticks++ > 0 });
    }
    return $store->pending == 0;
});
for my $client (@both)
{
    my %seen;
    is(join(' ', grep { $seen{$_}++ } rows($client)), '', 'no device receives a duplicate');
    is_deeply([ rows($client) ], [ sort { $a <=> $b } rows($client) ], 'each device receives all rows in order');
}
is($_->metric('clairon_store_errors_total'), 0, 'the store returns no errors') for @relays;

done_testing();
