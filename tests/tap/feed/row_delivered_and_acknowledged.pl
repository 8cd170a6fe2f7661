# Tests that a row written in PostgreSQL reaches exactly its audience, and that acks are stored.
use strict;
use warnings;

use Clairon::Test qw(wait_until wait_confirmed);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE assignments (id int PRIMARY KEY, student_id text, title text);
    CREATE TABLE notices (id int PRIMARY KEY, structure text, body text);
    INSERT INTO clairon.member VALUES ('STRUCTURE', 's1', 'u2');
    SELECT clairon.watch('assignments', 'USER', 'student_id');
    SELECT clairon.watch('notices', 'STRUCTURE', 'structure', type => 'SYSTEM', priority => 'HIGH',
        ack_required => true)});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);

my $one = $relay->client('u1');
my $two = $relay->client('u2');
my $hello = $one->wait_for('connected');
is($hello->{user}, 'u1', 'the connected frame contains the user');
ok(defined $hello->{pos}, 'the connected frame contains a cursor before the first notification');

# The changes include an insert, an update and a delete.
$pg->safe_psql('postgres', q{INSERT INTO assignments VALUES (1, 'u1', E'a "quoted"\ntitle \u20ac')});
$pg->safe_psql('postgres', q{UPDATE assignments SET title = 'second' WHERE id = 1});
$pg->safe_psql('postgres', q{DELETE FROM assignments WHERE id = 1});
$pg->safe_psql('postgres', q{BEGIN; INSERT INTO assignments VALUES (2, 'u1', 'never'); ROLLBACK;
    INSERT INTO assignments VALUES (3, 'u2', 'for two')});
my @notifications = $one->wait_notifications(2);
$two->wait_notifications(1);
my @one = grep { $_->{metadata}{source} eq 'assignments' } $one->notifications;
is_deeply([ map { $_->{metadata}{operation} } @one[ 0, 1 ] ], [ 'create', 'update' ],
    'changes arrive in order');
is($one[0]{payload}{after}{title}, "a \"quoted\"\ntitle \x{20ac}", 'a notification contains the values of the row');
is($one[0]{metadata}{topic}, 'postgres.assignments', 'a notification contains its topic');
is($two->wait_for('msg')->{n}{payload}{after}{title}, 'for two', 'each user receives only rows for that user');
is(scalar(grep { $_->{payload}{after} && $_->{payload}{after}{title} =~ /never|two/ } $one->notifications),
    0, 'rolled back rows and other users\' rows are not delivered');

# A delete is routed by the target in the old row, so the old row must include the target column.
$pg->safe_psql('postgres', q{ALTER TABLE assignments REPLICA IDENTITY FULL;
    INSERT INTO assignments VALUES (4, 'u1', 'gone soon'); DELETE FROM assignments WHERE id = 4});
my $delete = $one->wait_for(
    sub { $_[0]{t} eq 'msg' && $_[0]{n}{metadata}{operation} eq 'delete' });
is($delete->{n}{payload}{before}{title}, 'gone soon', 'a delete reaches the row\'s user');

# A group has members from before and after the slot's creation; one ack per user is sufficient.
my $three = $relay->client('u3');
$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('STRUCTURE', 's1', 'u3')});
$pg->safe_psql('postgres', q{INSERT INTO notices VALUES (1, 's1', 'to acknowledge')});
my ($for_two) = grep { $_->{metadata}{source} eq 'notices' } $two->wait_notifications(2);
my ($for_three) = $three->wait_notifications(1);
is($for_three->{metadata}{id}, $for_two->{metadata}{id}, 'all members receive one notification');
is($for_three->{metadata}{type}, 'SYSTEM', 'the notification has the type of the rule');
my $id = $for_two->{metadata}{id};
is($store->pending, 1, 'a notification with ack_required is pending');
is_deeply({ @{ $store->execute('HGETALL', $store->of($id, "ack:$id")) } }, { u2 => 0, u3 => 0 },
    'the notification is pending for each member');
my $other = $relay->client('u2');
is($other->wait_for('msg')->{n}{metadata}{id}, $id, 'another session of a member also receives the notification');
$two->ack($id);
is_deeply($other->wait_for('acked')->{ids}, [$id], 'the other session of the user receives the acked frame');
wait_until('the ack is stored', sub { $store->execute('HGET', $store->of($id, "ack:$id"), 'u2') > 1 });
is($store->pending, 1, 'after one of two acks, the notification stays pending');
$two->ack($id);
$one->ack($id);
$three->ack(uc $id);
wait_until('the notification is complete', sub { $store->pending == 0 });
is($store->execute('EXISTS', $store->of($id, "ack:$id")), 0, 'the last ack deletes the state of the notification');
is($store->execute('EXISTS', map { $store->keys("pending_list:$_") } qw(u2 u3)), 0, 'the last ack deletes the pending lists');

# A user who leaves a group leaves the audience immediately.
$pg->safe_psql('postgres', q{DELETE FROM clairon.member WHERE user_id = 'u3'});
$pg->safe_psql('postgres', q{INSERT INTO notices VALUES (2, 's1', 'for the rest')});
$two->wait_notifications(3);
$pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{u3}', '{"mark": 1}')});
$three->wait_for(sub { $_[0]{t} eq 'msg' && $_[0]{n}{payload}{mark} });
is(scalar(grep { ($_->{payload}{after}{id} // 0) == 2 } $three->notifications), 0,
    'a former member receives no later notifications');
my ($rest) = grep { ($_->{payload}{after}{id} // 0) == 2 } $two->notifications;
$two->ack($rest->{metadata}{id});
wait_until('the notification is complete after the acks of the remaining members', sub { $store->pending == 0 });

# The groups of a token also apply; USER and ALL cannot be claimed.
my $forger = $relay->client('u9', groups => { USER => ['u1'] });
is($forger->wait_closed, 4001, 'a token cannot claim another user');
my $group_member = $relay->client('u9', groups => { STRUCTURE => ['s1'] });
$pg->safe_psql('postgres', q{INSERT INTO notices VALUES (3, 's1', 'token group')});
is($group_member->wait_for('msg')->{n}{payload}{after}{id}, 3, 'a group of a token belongs to the audience');
$pg->safe_psql('postgres', q{INSERT INTO assignments VALUES (5, 'u1', 'private')});
$pg->safe_psql('postgres', q{SELECT clairon.notify('ALL', '{}', '{"everyone": true}')});
$group_member->wait_for(sub { $_[0]{t} eq 'msg' && $_[0]{n}{payload}{everyone} });
is(scalar(grep { $_->{routing}{audience}{type} eq 'USER' } $group_member->notifications), 0,
    'notifications for one user are not delivered to other users');
$one->wait_for(sub { $_[0]{t} eq 'msg' && $_[0]{n}{payload}{everyone} });

# A repeated idempotency key sends no second notification.
my $notify = q{SELECT clairon.notify('USER', '{u1}', '{"n": 1}', idempotency_key => 'k1')};
my $first = $pg->safe_psql('postgres', $notify);
is($pg->safe_psql('postgres', $notify), $first, 'a repeated key returns the first id');
$pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{u1}', '{"n": 2}')});
$one->wait_for(sub { $_[0]{t} eq 'msg' && ($_[0]{n}{payload}{n} // 0) == 2 });
is(scalar(grep { ($_->{payload}{n} // 0) == 1 } $one->notifications), 1, 'a repeated key does not send a notification again');

# The client disconnects and reconnects.
my $pos = $one->pos;
$one->close;
$pg->safe_psql('postgres',
    q{INSERT INTO assignments SELECT i, 'u1', 'away ' || i FROM generate_series(100, 1099) i});
my $reconnected = $relay->client('u1', pos => $pos);
ok($reconnected->wait_for('connected')->{resumed}, 'a client with a cursor resumes');
my @missed = $reconnected->wait_notifications(1000);
is_deeply([ map { $_->{payload}{after}{id} } @missed ], [ 100 .. 1099 ],
    'the client receives missed notifications in order, without duplicates');
my $lost = $relay->client('u1', pos => 'nonsense');
ok(!$lost->wait_for('connected')->{resumed}, 'a client with an invalid cursor does not resume');
is($lost->wait_for('gap')->{why}, 'epoch', 'an invalid cursor causes a gap');

# Confirmed WAL is not retained.
wait_confirmed($pg);
pass('the slot advances');
is($relay->metric('clairon_store_errors_total'), 0, 'the store returns no errors');
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

done_testing();
