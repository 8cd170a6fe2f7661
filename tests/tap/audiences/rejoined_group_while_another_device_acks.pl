# A device disconnects with a queued notification, which another device acknowledges. Meanwhile its user rejoins a group
# that has an undelivered notification. Tests that the device receives both.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $feed  = Clairon::Test::relay($pg, $store, roles => 'feed');
my $gate  = Clairon::Test::relay(undef, $store, roles => 'gate');

sub notify { my ($audience, $target, @more) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('$audience', '{$target}', '{}'" . join('', map { ", $_" } @more) . ')') }
sub has { my ($client, $id) = @_; return scalar grep { $_->{metadata}{id} eq $id } $client->notifications }
sub is_member { return $store->execute('SISMEMBER', $store->shared('members:TEAM:t1'), 'u1') }
my $ACK_REQUIRED = 'ack_required => true';

$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('TEAM', 't1', 'u1'), ('TEAM', 't1', 'u2')});
wait_until('the user is a member', sub { is_member() });
my ($narrow, $wide) = map { $gate->client('u1', win => $_) } 1, 10;
my $first = notify(USER => 'u1', $ACK_REQUIRED);
$_->run_until('the first notification arrives', sub { has($narrow, $first) && has($wide, $first) }) for $narrow, $wide;

# The relay's pending read returns only u2's notification. It reads the group's notification together with the end of
# the membership, so no user receives it.
kill STOP => $gate->pid;
my $stored = $store->stored;
notify(USER => 'u2');
wait_until('the notification for another user is stored', sub { $store->stored > $stored });
my $passed = notify(TEAM => 't1', $ACK_REQUIRED);
$pg->safe_psql('postgres', q{DELETE FROM clairon.member WHERE user_id = 'u1'});
wait_until('the user has left', sub { !is_member() });
kill CONT => $gate->pid;
my $waits = notify(USER => 'u1', $ACK_REQUIRED);
my $plain = notify(USER => 'u1');
$_->run_until('later notifications arrive', sub { has($narrow, $plain) && has($wide, $waits) }) for $narrow, $wide;
is(has($narrow, $waits) + has($narrow, $passed), 0, 'one notification is queued, the other was skipped');
my $pos = $narrow->pos;
like($pos, qr/[~!]/, 'the cursor includes the deferred notification');
$narrow->close;

$wide->ack($waits);
wait_until('the other device has acknowledged the queued notification',
    sub { !$store->execute('HEXISTS', $store->of($waits, 'pending'), $waits) });
$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('TEAM', 't1', 'u1')});
wait_until('the user is a member again', sub { is_member() });
$wide->run_until('the group\'s notification arrives', sub { has($wide, $passed) });
my $reconnected = $gate->client('u1', win => 1, pos => $pos);
is($reconnected->wait_for('connected')->{resumed}, JSON::true, 'the session resumes');
$reconnected->ack($first);
$reconnected->run_until('the group\'s notification arrives', sub { has($reconnected, $passed) });
$reconnected->ack($passed);
$reconnected->run_until('the notification that the other device acknowledged arrives', sub { has($reconnected, $waits) });
is($reconnected->gaps, '', 'the session receives no gap');

done_testing();
