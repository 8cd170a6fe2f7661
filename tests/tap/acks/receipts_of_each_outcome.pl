# Tests the receipts of each outcome, for pairs and for the notification: exactly one for each, also after a redrive, for
# open-ended audiences, and with ids that JSON must escape.
use strict;
use warnings;
use utf8;

use Clairon::Test qw(wait_until of_mark token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);
my $JSON  = JSON->new->utf8;

sub sql { return $pg->safe_psql('postgres', $_[0]) }
sub notify { my ($audience, $targets, $mark, $more) = @_;
    return sql("SELECT clairon.notify('$audience', '{$targets}', '{\"mark\": \"$mark\"}', ack_required => true, emitter => 'teacher', "
        . ($more // "receipts => 'user'") . ')') }
# Returns the receipts of a notification as text: "u1:acked:1", with the counts of the notification's own.
sub receipts { my ($id) = @_; return grep { $_->{notification} eq $id } map { $JSON->decode($_->{data}) } map { $store->entries($_) } $store->keys('receipts') }
sub text { my ($receipt) = @_;
    return "$receipt->{user_id}:$receipt->{outcome}:$receipt->{round}" . (defined $receipt->{recipients} ? " $receipt->{acked}/$receipt->{recipients}" : '') }
sub texts { my ($id) = @_; return join ', ', sort map { text($_) } receipts($id) }
sub wait_receipts { my ($id, $wanted, $name) = @_;
    eval { wait_until($name, sub { texts($id) eq $wanted }) };
    is(texts($id), $wanted, $name);
    return }
sub state_keys { return grep { /:receipt_state:|:escalations$/ } @{ $store->execute('KEYS', '*') } }
sub expire { my ($id) = @_; $store->execute('ZADD', $store->of($id, 'due'), 1.5, "$id:"); return }
sub reported { my ($id, @users) = @_;
    return wait_until('the deliveries are reported', sub { !grep { !defined $store->execute('ZSCORE', $store->of($id, 'due'), "$id:$_") } @users }) }
sub get { my ($client, $mark) = @_; return $client->run_until("$mark arrives", sub { of_mark($client, $mark) }) }

my ($u1, $u2) = map { $relay->client($_) } qw(u1 u2);

# Acknowledged by all.
my $id = notify('USER', 'u1,u2', 'acked');
get($_, 'acked') for $u1, $u2;
reported($id, qw(u1 u2));
$u1->ack($id);
wait_receipts($id, 'u1:acked:1', 'an ack has a receipt before the others have acknowledged');
$u2->ack($id);
wait_receipts($id, ':acked:1 2/2, u1:acked:1, u2:acked:1', 'each pair and the notification are acknowledged');
my ($pair, $whole) = ((grep { $_->{user_id} eq 'u1' } receipts($id))[0], (grep { $_->{user_id} eq '' } receipts($id))[0]);
my $TIME = qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/;
like($pair->{$_}, $TIME, "$_ is a time in the form of metadata.timestamp") for qw(at delivered_at);
cmp_ok($pair->{delivered_at}, 'le', $pair->{at}, 'the delivery precedes the ack');
my ($seconds) = @{ $store->execute('TIME') };
my @now = gmtime $seconds;
like($pair->{at}, qr/^@{[ sprintf '%04d-%02d-%02dT', $now[5] + 1900, $now[4] + 1, $now[3] ]}|T23:59:/, 'the day is right');
is_deeply([ @$pair{qw(id attempts emitter source topic acked recipients)} ],
    [ "$id:u1:acked:1", 0, 'teacher', 'notify', 'postgres.notify', undef, undef ], 'a receipt of a pair has all fields');
is_deeply([ sort keys %$pair ], [ sort qw(id notification user_id outcome round at delivered_at attempts emitter source topic acked recipients) ], 'and no others');
is_deeply([ @$whole{qw(id delivered_at)} ], [ "$id\::acked:1", undef ], 'the receipt of the notification has no delivery');
my ($entry) = map { $store->entries($_) } $store->keys('receipts');
is($entry->{id}, $JSON->decode($entry->{data})->{id}, 'the stream entry has the id of the receipt');

# Without receipts, and with those of the notification only.
$id = notify('USER', 'u1,u2', 'none', q{receipts => 'none'});
my $only = notify('USER', 'u1,u2', 'whole', q{receipts => 'notification'});
for my $client ($u1, $u2) { get($client, 'whole'); $client->ack($id, $only) }
wait_receipts($only, ':acked:1 2/2', 'receipts => notification gives one receipt');
is(texts($id), '', 'without receipts in the rule there are none');
is(scalar(state_keys()), 0, 'complete notifications have no state');

# Dropped: before and after its delivery.
$id = notify('USER', 'u1,u2,absent', 'dropped');
get($_, 'dropped') for $u1, $u2;
$u1->ack($id);
wait_receipts($id, 'u1:acked:1', 'one user acknowledges');
is(($relay->run('drop', $id))[0], 0, 'the notification is dropped');
wait_receipts($id, ':dropped:1 1/3, absent:dropped:1, u1:acked:1, u2:dropped:1', 'the other pairs and the notification are dropped');
is(scalar(state_keys()), 0, 'a dropped notification has no state');

# Exhausted, expired and unreached, then a redrive.
$id = notify('USER', 'u1,u2,absent', 'ends', q{receipts => 'user', retry_limit => 0, ttl => '1 day'});
get($_, 'ends') for $u1, $u2;
reported($id, qw(u1 u2));
$store->make_due($id, 'u1');
wait_receipts($id, 'u1:exhausted:1', 'a pair is exhausted');
expire($id);
wait_receipts($id, ':exhausted:1 0/3, absent:unreached:1, u1:exhausted:1, u2:expired:1', 'others expire, or were never reached');
my %delivered = map { $_->{user_id} => $_->{delivered_at} } receipts($id);
like($delivered{u2}, $TIME, 'an expired pair has the time of its delivery');
is($delivered{absent}, undef, 'an unreached pair has none');
is(($relay->run('errors', 'redrive', $id))[0], 0, 'the notification is redriven');
$u1->run_until('the notification arrives again', sub { of_mark($u1, 'ends') > 1 });
$u2->run_until('the notification arrives again', sub { of_mark($u2, 'ends') > 1 });
$_->ack($id) for $u1, $u2;
wait_until('two users acknowledge', sub { texts($id) =~ /u1:acked:2.*u2:acked:2/ });
expire($id);
my $ROUND_1 = ':exhausted:1 0/3, ';
wait_receipts($id, "$ROUND_1:unreached:2 2/3, absent:unreached:1, absent:unreached:2, u1:acked:2, u1:exhausted:1, u2:acked:2, u2:expired:1",
    'the second round counts the whole notification');
is(scalar(state_keys()), 1, 'its state remains while it can be redriven');
my $before = scalar map { $store->entries($_) } $store->keys('receipts');
is(($relay->run('errors', 'drop', $id))[0], 0, 'its error log entry is dropped');
is(scalar(map { $store->entries($_) } $store->keys('receipts')), $before, 'errors drop adds no receipt');
is(scalar(state_keys()), 0, 'and deletes the state');

# Users end at different times; one is redriven while the others are pending.
$id = notify('USER', 'u1,u2', 'apart', q{receipts => 'user', retry_limit => 0});
get($_, 'apart') for $u1, $u2;
$store->make_due($id, 'u1');
wait_receipts($id, 'u1:exhausted:1', 'one pair is exhausted');
is(($relay->run('errors', 'redrive', $id))[0], 0, 'it is redriven');
$u1->run_until('the notification arrives again', sub { of_mark($u1, 'apart') > 1 });
$_->ack($id) for $u1, $u2;
wait_receipts($id, ':acked:1 2/2, u1:acked:2, u1:exhausted:1, u2:acked:1', 'the notification ends once');
is(scalar(state_keys()), 0, 'no state remains');

# The number of retries.
$id = notify('USER', 'u1', 'retried', q{receipts => 'user', retry_limit => 1});
get($u1, 'retried');
$store->make_due($id, 'u1');
$u1->run_until('a retry arrives', sub { of_mark($u1, 'retried') > 1 });
wait_until('the retry is reported', sub { ($store->execute('HGET', $store->of($id, "retries:$id"), 'u1') // '') eq '1' });
$u1->ack($id);
wait_receipts($id, ':acked:1 1/1, u1:acked:1', 'a retried notification is acknowledged');
is_deeply([ map { $_->{attempts} } receipts($id) ], [ 1, 1 ], 'its receipts have the number of retries');

# Open-ended audiences.
my $nobody = notify('CLUB', 'c1', 'nobody', q{receipts => 'user', ttl => '1 day'});
$id = notify('ALL', '', 'all', q{receipts => 'user', ttl => '1 day'});
get($_, 'all') for $u1, $u2;
wait_until('both pairs exist', sub { $store->execute('HLEN', $store->of($id, "ack:$id")) == 2 });
reported($id, qw(u1 u2));
$u1->ack($id);
wait_receipts($id, 'u1:acked:1', 'a recipient acknowledges');
expire($id);
wait_receipts($id, ':expired:1 1/2, u1:acked:1, u2:expired:1', 'the pairs are those of the deliveries');
expire($nobody);
wait_receipts($nobody, ':unreached:1 0/0', 'a notification that nobody received is unreached');

# Names that JSON must escape.
my $odd = qq(a"b\\c/é:1);
my $odd_client = $relay->client($odd);
$id = $pg->safe_psql('postgres', q{SELECT clairon.notify('USER', ARRAY[E'a"b\\\\c/é:1'], '{"mark": "odd"}', ack_required => true,
    receipts => 'user', emitter => E'e"\\\\\n,"operation":', topic => 't"\,"source":', source => 's"\')});
get($odd_client, 'odd');
$odd_client->ack($id);
wait_until('both receipts exist', sub { receipts($id) == 2 });
($pair) = grep { $_->{user_id} ne '' } receipts($id);
is_deeply([ @$pair{qw(user_id id emitter topic source)} ], [ $odd, "$id:$odd:acked:1", qq(e"\\\n,"operation":), 't"\,"source":', 's"\\' ], 'a receipt is JSON whatever the names contain');

# Over HTTP, and in a rule.
sub publish { my ($routing) = @_;
    return Clairon::Test::RawSocket->new($relay)->request(POST => '/v1/notifications', Authorization => 'Bearer ' . token(sub => 'app', publish => JSON::true),
        ':body' => { payload => { mark => 'http' }, routing => { audience => { type => 'USER', targets => ['u1'] }, %$routing } }) }
my $reply = publish({ receipts => 'user', retry => { ack_required => JSON::true } });
$id = $JSON->decode($reply->{body})->{id};
get($u1, 'http');
$u1->ack($id);
wait_receipts($id, ':acked:1 1/1, u1:acked:1', 'routing.receipts asks for receipts');
is((receipts($id))[0]{emitter}, 'app', 'the emitter is the caller');
for my $case ([ { receipts => 'user' }, 'routing.receipts' ], [ { receipts => 'all', retry => { ack_required => JSON::true } }, 'receipts' ], [ { escalate_after => 1 }, 'routing.escalate_after' ],
    map { [ { escalate_after => $_, retry => { ack_required => JSON::true } }, 'routing.escalate_after' ] } 0, -1, 'soon', [], [ 2, 1 ], [ 1, 2, 3 ], [ 1, 'x' ], 2592001, JSON::true)
{
    my $bad = publish($case->[0]);
    is($bad->{status}, 400, $JSON->encode($case->[0]) . ' is rejected');
    like($bad->{body}, qr/\Q$case->[1]\E/, 'the error names the field');
}
sql(q{CREATE TABLE grades (id int PRIMARY KEY, who text); SELECT clairon.watch('grades', 'USER', 'who', ack_required => true, receipts => 'user', escalate_after => '{10 min,1 h}')});
sql(q{INSERT INTO grades VALUES (1, 'u1')});
$u1->run_until('the row arrives', sub { grep { $_->{metadata}{source} eq 'grades' } $u1->notifications });
($id) = map { $_->{metadata}{id} } grep { $_->{metadata}{source} eq 'grades' } $u1->notifications;
is(scalar(grep { /escalations$/ } state_keys()), 1, 'a rule sets escalations');
$u1->ack($id);
wait_receipts($id, ':acked:1 1/1, u1:acked:1', 'a rule asks for receipts');
is(scalar(grep { /escalations$/ } state_keys()), 0, 'an ack cancels the escalations');

done_testing();
