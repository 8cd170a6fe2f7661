# Tests two devices of one user with small in-flight windows: each device receives all notifications once and in order,
# or a gap for notifications that the other device acknowledged.
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
sub is_rising { my ($ids) = @_; return !grep { $ids->[$_] <= $ids->[ $_ - 1 ] } 1 .. $#$ids }
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

# Both devices are connected, and one device has a full in-flight window when the other device acknowledges. Depending
# on the timing of the acks, queued rows are sent and there is no gap. So the rounds are repeated until a gap occurs.
sub round_of
{
    my ($relay, $first) = @_;
    my $user = 'u' . $relay->{port};
    my ($quick, $slow) = ($relays[0]->client($user), $relay->client($user, win => 3));
    my $read = $relay->metric('clairon_hub_notifications_total') // 0;
    insert($first + 1, $first + 10, $user);
    $quick->run_until('all rows arrive', sub { rows($quick) == 10 });
    $slow->run_until('the in-flight window is full', sub { rows($slow) >= 3 });
    wait_until('all rows are queued', sub { $relay->metric('clairon_hub_notifications_total') >= $read + 10 });
    ack_all($quick);
    all_acked();
    $slow->run_until('a gap or all rows arrive', sub { $slow->gaps || rows($slow) == 10 });
    insert($first + 11, $first + 11, $user);
    $slow->run_until('the next row arrives', sub { grep { $_ == $first + 11 } rows($slow) });
    my %received = map { $_ => 1 } rows($slow);
    my @missing  = grep { !$received{ $first + $_ } } 1 .. 11;
    my $result   = { gaps => $slow->gaps, missing => scalar @missing, rows => [ rows($slow) ] };
    ack_all($slow);
    all_acked();
    $_->close for $quick, $slow;
    return $result;
}

for my $i (0, 1)
{
    my ($result, @wrong);
    for my $round (0 .. 19)
    {
        $result = round_of($relays[$i], 1000 * (1 + $i) + 20 * $round);
        push @wrong, $result if $result->{gaps} ne ($result->{missing} ? 'shed' : '') || !is_rising($result->{rows});
        last if $result->{gaps};
    }
    is($result->{gaps}, 'shed', 'rows acknowledged while queued are announced as a gap');
    is_deeply(\@wrong, [], 'each round delivers all rows in order, or a gap followed by later rows');
}

# The gap follows the rows that were queued together with the lost rows, so a client that reloads its data at the gap
# receives no older rows afterwards.
my $quick = $relays[0]->client('u5');
$pos = $quick->pos;
insert(251, 256, 'u5');
$quick->run_until('all rows arrive', sub { rows($quick) == 6 });
$quick->ack(map { $_->{metadata}{id} } grep { $_->{payload}{after}{id} > 253 } $quick->notifications);
wait_until('three acks are stored', sub { $store->pending == 3 });
my $behind = $relays[1]->client('u5', win => 2, pos => $pos);
$behind->run_until('the in-flight window is full', sub { rows($behind) == 2 });
ack_all($behind);
$behind->run_until('a gap arrives', sub { $behind->gaps });
is(join(' ', map { $_->{t} eq 'msg' ? $_->{n}{payload}{after}{id} : $_->{t} eq 'gap' ? 'gap' : () } @{ $behind->{messages} }),
    '251 252 253 gap', 'the gap follows the delivered rows in commit order');
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
