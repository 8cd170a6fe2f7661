# Tests escalations: one receipt for each level and each user without an acknowledgement, none after an ack, a drop or an
# expiration, also over kills of the relay and the store, and again after a redrive.
use strict;
use warnings;

use Clairon::Test qw(wait_until of_mark);
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);
my $JSON  = JSON->new->utf8;

sub notify { my ($audience, $targets, $mark, $more) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('$audience', '{$targets}', '{\"mark\": \"$mark\"}', ack_required => true, $more)") }
sub receipts { my ($id) = @_; return grep { $_->{notification} eq $id } map { $JSON->decode($_->{data}) } map { $store->entries($_) } $store->keys('receipts') }
sub texts { my ($id) = @_; return join ', ', sort map { "$_->{user_id}:$_->{outcome}:$_->{round}" } receipts($id) }
sub wait_receipts { my ($id, $wanted, $name) = @_;
    eval { wait_until($name, sub { texts($id) eq $wanted }) };
    is(texts($id), $wanted, $name);
    return }
sub levels { my ($id) = @_; return map { /^(\d)\Q$id\E:(.*)/ ? "$1$2" : () } map { @{ $store->execute('ZRANGE', $_, 0, -1) } } $store->keys('escalations') }
# Makes an escalation due immediately.
sub escalate { my ($id, $level, $user) = @_;
    wait_until('the escalation is stored', sub { grep { $_ eq $level . ($user // '') } levels($id) });
    $store->execute('ZADD', $store->of($id, 'escalations'), 1, "$level$id:" . ($user // ''));
    return }
sub stored { my ($id) = @_; return wait_until('the notification is stored', sub { $store->execute('HEXISTS', $store->of($id, 'pending'), $id) }) }

my ($u1, $u2) = map { $relay->client($_) } qw(u1 u2);

# Both levels; the user who acknowledged has none.
my $id = notify('USER', 'u1,u2,absent', 'both', q{escalate_after => '{1 h,2 h}', retry_limit => 0});
for my $client ($u1, $u2) { $client->run_until('the notification arrives', sub { of_mark($client, 'both') }) }
my $score = $store->execute('ZSCORE', $store->of($id, 'escalations'), "1$id:");
my ($seconds) = @{ $store->execute('TIME') };
ok(abs($score / 1000 - $seconds - 3600) < 600, 'the first level is an hour after the commit');
is($store->execute('ZSCORE', $store->of($id, 'escalations'), "2$id:") - $score, 3_600_000, 'the second level is an hour later');
$u1->ack($id);
wait_until('the ack is stored', sub { ($store->execute('HGET', $store->of($id, "ack:$id"), 'u1') // 0) > 0 });
wait_until('the delivery is reported', sub { defined $store->execute('ZSCORE', $store->of($id, 'due'), "$id:u2") });
escalate($id, 1);
wait_receipts($id, 'absent:escalated:1, u2:escalated:1', 'the users without an ack are escalated');
my %delivered = map { $_->{user_id} => $_->{delivered_at} } receipts($id);
ok($delivered{u2} && !$delivered{absent}, 'an escalation has the time of the delivery');
ok(!(grep { exists $_->{n} } receipts($id)), 'the stored receipt does not contain the notification');
$u2->ack($id);
wait_until('the ack is stored', sub { ($store->execute('HGET', $store->of($id, "ack:$id"), 'u2') // 0) > 0 });
escalate($id, 2);
wait_receipts($id, 'absent:escalated2:1, absent:escalated:1, u2:escalated:1', 'the second level is only for the user who still lacks an ack');
is($store->pending, 1, 'an escalation ends nothing');
is(($relay->run('drop', $id))[0], 0, 'the notification is dropped');
wait_until('it ended', sub { $store->pending == 0 });
is(texts($id), 'absent:escalated2:1, absent:escalated:1, u2:escalated:1', 'without receipts in the rule, ends have none');

# An end cancels both levels.
for my $end (qw(ack drop))
{
    $id = notify('USER', 'u1', $end, q{escalate_after => '{1 h,2 h}'});
    $u1->run_until('the notification arrives', sub { of_mark($u1, $end) });
    is(join(' ', sort { $a cmp $b } levels($id)), '1 2', 'both levels are stored');
    $end eq 'ack' ? $u1->ack($id) : $relay->run('drop', $id);
    wait_until('it ended', sub { $store->pending == 0 });
    is(join(' ', levels($id)), '', "$end cancels the escalations");
}

# They become due while neither relay nor store runs, together with the expiration.
$id = notify('USER', 'absent', 'outage', q{escalate_after => '1 h', receipts => 'user', ttl => '2 h'});
stored($id);
$relay->kill9;
$store->execute('ZADD', $store->of($id, 'due'), 1, "$id:");
escalate($id, 1);
$store->restart;
$relay = Clairon::Test::relay($pg, $store);
wait_receipts($id, ':unreached:1, absent:escalated:1, absent:unreached:1', 'an escalation survives kills, and precedes the end of the pair');

# A redrive starts again for its users.
is(($relay->run('errors', 'redrive', $id))[0], 0, 'the notification is redriven');
wait_until('the escalation of the user is stored', sub { join(' ', levels($id)) eq '1absent' });
cmp_ok($store->execute('ZSCORE', $store->of($id, 'escalations'), "1$id:absent"), '>', 1000 * $seconds + 3_500_000, 'its time counts from the redrive');
escalate($id, 1, 'absent');
wait_receipts($id, ':unreached:1, absent:escalated:1, absent:escalated:2, absent:unreached:1', 'a redriven pair is escalated in its round');
($u1) = $relay->client('absent');
$u1->run_until('the notification arrives', sub { of_mark($u1, 'outage') });
$u1->ack($id);
wait_until('it ended', sub { $store->pending == 0 });
is(scalar(grep { /receipt_state|escalations/ } @{ $store->execute('KEYS', '*') }), 0, 'no state remains');

# A short time, without help of the test.
$id = notify('USER', 'late', 'short', q{escalate_after => '{100 ms,200 ms}'});
wait_receipts($id, 'late:escalated2:1, late:escalated:1', 'escalations become due by themselves');

done_testing();
