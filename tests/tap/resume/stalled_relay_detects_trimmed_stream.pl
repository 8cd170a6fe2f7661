# Tests that a paused relay detects that the streams of acks and memberships were trimmed during the pause.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

# More events than the store retains for relays, even if the reply that the relay waits for contains the first events. The
# store retains 10 000 entries of up to 100 membership changes, so the test adds entries of one change.
use constant { RECEIPTS => 600, MEMBERS => 12_000, FIRST => 200 };

my $pg     = Clairon::Test::postgresql('main');
my $store  = Clairon::Test::store();
my $first  = Clairon::Test::relay($pg, $store);
my $second = Clairon::Test::relay(undef, $store, roles => 'gate');

sub notify { my ($audience, $target, $more) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('$audience', '{$target}', '{}'" . ($more // '') . ')') }
sub has { my ($client, $id) = @_; return scalar grep { $_->{metadata}{id} eq $id } $client->notifications }
sub is_member { my ($user) = @_; return $store->execute('SISMEMBER', $store->shared('members:TEAM:t1'), $user) }

# Calls a function while the relay is stopped.
sub while_relay_is_stopped
{
    my ($relay, $what) = @_;
    my $mark = $relay->log_mark;
    kill STOP => $relay->pid;
    $what->();
    kill CONT => $relay->pid;
    return $mark;
}
sub wait_detected { my ($relay, $mark) = @_;
    return $relay->wait_for_log(qr/stream was trimmed before it was read/, from => $mark) }

# Acks of the same user's session on another relay free the in-flight window.
my $first_session  = $first->client('u1');
my $second_session = $second->client('u1', win => 2);
my @ids = map { notify('USER', 'u1', ', ack_required => true') } 1 .. 2;
$_->run_until('both notifications arrive', sub { has($first_session, $ids[1]) && has($second_session, $ids[1]) }) for $first_session, $second_session;
my $third = notify('USER', 'u1', ', ack_required => true');
$first_session->run_until('a third notification arrives', sub { has($first_session, $third) });
sub add_ack_events
{
    my ($count) = @_;
    for my $key ($store->keys('ack_events')) { $store->execute('XADD', $key, 'MAXLEN', '~', 256, '*', 'by', 'a busy relay', 'acked', '') for 1 .. $count }
    return;
}

my $mark = while_relay_is_stopped($second, sub {
    add_ack_events(FIRST);
    $first_session->ack(@ids);
    wait_until('the notifications are complete', sub { $store->pending == 1 });
    add_ack_events(RECEIPTS);
});
wait_detected($second, $mark);
$second_session->run_until('the third notification arrives', sub { has($second_session, $third) });
pass('missed ack events do not block the in-flight window');
$second_session->ack($third);
wait_until('all notifications are complete', sub { $store->pending == 0 });

# One membership ends and another starts before a notification, with many other memberships in between. The relay reads
# the changes one by one, or detects that they were trimmed.
sub class_members { my ($class, $count) = @_;
    return "INSERT INTO clairon.member SELECT 'CLASS', '$class', 'pupil' || i FROM generate_series(1, $count) i;" }
sub add_changes { return $store->execute('EVAL', q{for i = 1, tonumber(ARGV[1]) do redis.call('XADD', KEYS[1], 'MAXLEN', '~', 10000, '*',
    'change', '+', 'audience', 'CLASS', 'target', 'more', 'user', 'pupil', 'xid', '1') end}, 1, $store->shared('control'), $_[0]) }
for my $others (FIRST, MEMBERS)
{
    $pg->safe_psql('postgres', "INSERT INTO clairon.member VALUES ('TEAM', 't1', 'leaves$others')");
    wait_until('the leaving user is a member', sub { is_member("leaves$others") });
    my ($leaves, $joins) = map { $second->client("$_$others") } qw(leaves joins);
    my $before = notify('TEAM', 't1');
    $leaves->run_until('a notification of the team arrives', sub { has($leaves, $before) });
    my ($secret, $last);
    $mark = while_relay_is_stopped($second, sub {
        $pg->safe_psql('postgres', 'BEGIN;' . class_members("first$others", FIRST) . "
            DELETE FROM clairon.member WHERE user_id = 'leaves$others';
            INSERT INTO clairon.member VALUES ('TEAM', 't1', 'joins$others');" . class_members("then$others", FIRST) . 'COMMIT');
        $secret = notify('TEAM', 't1');
        $last   = notify('USER', "leaves$others,joins$others");
        wait_until('all notifications are stored', sub { grep { $_->{id} eq $last } $store->entries });
        add_changes($others) if $others == MEMBERS;
    });
    wait_detected($second, $mark) if $others == MEMBERS;
    $_->run_until('the last notification arrives', sub { has($leaves, $last) && has($joins, $last) }) for $leaves, $joins;
    is(has($joins, $secret), 1, "a user who joined before $others other users receives the notification");
    is(has($leaves, $secret), 0, "a user who left before $others other users does not receive the notification");
}
is($_->metric('clairon_store_errors_total'), 0, 'the store returns no errors') for $first, $second;

done_testing();
