# Tests that `clairon drop` and POST /v1/notifications/<id>/drop end pending notifications: no retry follows, also if one
# was under way, each pair has one outcome, the slots of in-flight windows are free, and a dry run changes nothing.
use strict;
use warnings;

use Clairon::Test qw(wait_until of_mark token audited unaudited);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $UNKNOWN = '01890000-0000-7000-8000-000000000000';

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);
my $other = Clairon::Test::relay($pg, $store, conf => { 'relay.roles' => 'gate' });
$pg->safe_psql('postgres', q{
    CREATE TABLE grades (id int PRIMARY KEY, users text[]);
    CREATE TABLE "grades""s" (id int PRIMARY KEY, users text[]);
    SELECT clairon.watch('grades', 'USER', 'users', ack_required => true);
    SELECT clairon.watch('grades', 'USER', 'users', name => 'second', ack_required => true);
    SELECT clairon.watch('"grades""s"', 'USER', 'users', ack_required => true)});

sub notify { my ($targets, $mark, $more) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{$targets}', '{\"mark\": \"$mark\"}', ack_required => true, "
        . ($more // "ack_timeout => '1 hour'") . ')') }
sub drop { return $relay->run('drop', @_) }
sub post { my ($id, %claims) = @_;
    return Clairon::Test::RawSocket->new($relay)->request(POST => "/v1/notifications/$id/drop", Authorization => 'Bearer ' . token(sub => 'op', %claims))->{status} }
sub outcomes { my ($id) = @_;
    my $trace = JSON::decode_json(($relay->run('trace', $id, '--json'))[1]);
    return (join ' ', sort map { "$_->{user}:$_->{stage}" } grep { $_->{stage} =~ /acked|errored|dropped/ } @{ $trace->{events} }), scalar @{ $trace->{waiting} } }
sub keys_of { my ($id) = @_;
    return grep { !/:(trace|acked):/ && ($store->execute('TYPE', $_) eq 'zset' ? grep { /^$id/ } @{ $store->execute('ZRANGE', $_, 0, -1) } : /$id/) } @{ $store->execute('KEYS', '*') } }
sub stored { my ($count) = @_; return wait_until("$count notifications are pending", sub { $store->pending == $count }) }

# A retry waits for a user whose relay is paused.
my ($u1, $u2, $u3) = ($relay->client('u1'), $other->client('u2'), $relay->client('u3'));
my $id = notify('u1,u2,u3', 'first');
for my $client ($u1, $u2, $u3) { $client->run_until('the notification arrives', sub { of_mark($client, 'first') }) }
$u3->ack($id);
wait_until('u3 has acknowledged', sub { $store->execute('HGET', $store->of($id, "ack:$id"), 'u3') });
wait_until('the deliveries are reported', sub { !grep { !defined $store->execute('ZSCORE', $store->of($id, 'due'), "$id:$_") } qw(u1 u2) });
kill 'STOP', $other->pid;
$store->make_due($id, 'u2');
wait_until('a retry is added', sub { ($store->execute('HGET', $store->of($id, "retries:$id"), 'u2') // '') =~ /\+$/ });
is_deeply([ drop($id, '--dry-run') ], [ 0, "would drop 1 notification for 2 users; nothing was changed\n", '' ], 'a dry run counts');
is_deeply({ @{ $store->execute('HGETALL', $store->of($id, "ack:$id")) }, u3 => 1 }, { u1 => 0, u2 => 0, u3 => 1 }, 'a dry run changes nothing');
my ($code, $out, $err) = drop($id);
is_deeply([ $code, $out, unaudited($err) ], [ 0, "dropped 1 notification for 2 users\n", '' ], 'the notification is dropped for the users without an ack');
is_deeply([ audited($err) ], [qq(act="drop" object="$id")], 'the drop is audited');
is_deeply([ outcomes($id) ], [ 'u1:dropped u2:dropped u3:acked', 0 ], 'each pair has one outcome');
is_deeply([ keys_of($id) ], [], 'the store has deleted all state of the notification');
is(scalar(grep { $_->{id} eq $id } $store->entries), 1, 'the stream has its first entry, and not the retry');
is($store->error_count, 0, 'the error log has no entry');
kill 'CONT', $other->pid;
$u1->ack($id);    # too late
my $next = notify('u1,u2', 'next');
for my $client ($u1, $u2) { $client->run_until('the next notification arrives', sub { of_mark($client, 'next') }) }
$_->ack($next) for $u1, $u2;
stored(0);
is(scalar(of_mark($u1, 'first')), 1, 'a session receives a dropped notification once');
cmp_ok(scalar(of_mark($u2, 'first')), '<=', 2, 'or a retry that its relay read before');
is_deeply([ keys_of($id) ], [], 'the delivery report of that retry adds no state');
is_deeply([ map { $_->{t} } grep { $_->{t} =~ /acked|gap/ } map { @{ $_->{messages} } } $u1, $u2 ], [], 'and nothing more');
is_deeply([ outcomes($id) ], [ 'u1:dropped u2:dropped u3:acked', 0 ], 'a late ack does not change the outcome');
is_deeply([ drop($id, $UNKNOWN) ], [ 1, "dropped 0 notifications for 0 users\n",
    join '', map { "clairon drop: no pending notification has id $_\n" } sort $id, $UNKNOWN ], 'ids that are not pending are reported');

# A full in-flight window.
my $u4 = $relay->client('u4', win => 1);
my ($one, $two) = (notify('u4', 'one'), notify('u4', 'two'));
stored(2);
$u4->run_until('a notification arrives', sub { of_mark($u4, 'one') });
is(post($one), 403, 'a token without the admin claim cannot drop a notification');
is(post($one, admin => JSON::true), 204, 'an admin can drop a notification');
$u4->run_until('the next notification arrives', sub { of_mark($u4, 'two') });
is(scalar(of_mark($u4, 'one')), 1, 'a dropped notification occupies no slot of the window');
is(post($one, admin => JSON::true), 204, 'a repeated drop succeeds');
is(post($UNKNOWN, admin => JSON::true), 404, 'an unknown notification is not found');
is_deeply([ outcomes($one) ], [ 'u4:dropped', 0 ], 'the trace shows the outcome');
is_deeply([ audited($relay->log_text(0)) ], [ map { qq(act="drop" object="$_") } $one, $one, $UNKNOWN ], 'each request of an admin is audited');
$u4->ack($two);
stored(0);

# An audience of everybody is dropped before and after a delivery.
my @all = map { $pg->safe_psql('postgres', "SELECT clairon.notify('ALL', '{}', '{\"mark\": \"all\"}', ack_required => true, ack_timeout => '1 hour')") } 1, 2;
$u1->run_until('both notifications arrive', sub { of_mark($u1, 'all') == 2 });
wait_until('the deliveries are reported', sub { $store->execute('HLEN', $store->of($all[0], "ack:$all[0]")) == 4 && $store->execute('HLEN', $store->of($all[1], "ack:$all[1]")) == 4 });
is((drop(@all))[1], "dropped 2 notifications for 8 users\n", 'notifications for everybody are dropped for those who received them');
is_deeply([ (outcomes($all[0]))[0] =~ s/u\d/u/gr ], ['u:dropped u:dropped u:dropped u:dropped'], 'each has one outcome');

# A large audience takes several steps.
my $large = $pg->safe_psql('postgres', "SELECT clairon.notify('USER', array_agg('x' || i), '{}', ack_required => true) FROM generate_series(1, 5000) i");
stored(1);
is((drop($large, '--dry-run'))[1], "would drop 1 notification for 5000 users; nothing was changed\n", 'a dry run counts the users of a large audience');
is((drop($large))[1], "dropped 1 notification for 5000 users\n", 'a large audience is dropped');
is_deeply([ $store->pending, keys_of($large) ], [0], 'its state is deleted');

# All notifications of a source, or of one of its rules.
$pg->safe_psql('postgres', q{
    INSERT INTO grades SELECT i, ARRAY['away' || i] FROM generate_series(1, 20) i;
    INSERT INTO "grades""s" SELECT i, ARRAY['away', 'absent'] FROM generate_series(1, 3) i});
notify('away', 'other');
stored(44);
my %pending = map { @{ $store->execute('HGETALL', $_) } } $store->keys('pending');
my @second = ('--source', 'grades', '--rule', 'second');
is_deeply([ drop(@second, '--dry-run') ], [ 0, "would drop 20 notifications for 20 users; nothing was changed\n", '' ], 'a dry run counts the notifications of a rule');
is_deeply({ map { @{ $store->execute('HGETALL', $_) } } $store->keys('pending') }, \%pending, 'and changes nothing');
is_deeply([ drop('--source', 'grades', '--rule', 'third') ], [ 1, "dropped 0 notifications for 0 users\n",
    "clairon drop: no pending notification has source grades and rule third\n" ], 'a rule without pending notifications is reported');
is_deeply([ drop('--source', 'nosuch', '--dry-run') ], [ 1, "would drop 0 notifications for 0 users; nothing was changed\n",
    "clairon drop: no pending notification has source nosuch\n" ], 'an unknown source is reported');
($code, $out, $err) = drop(@second, '--json');
my @dropped = map { JSON::decode_json($_) } split /\n/, $out;
is_deeply([ $code, scalar(@dropped), grep { $_->{users} != 1 || !$pending{ $_->{id} } } @dropped ], [ 0, 20 ], 'the notifications of a rule are dropped, and printed as JSON');
is_deeply([ audited($err) ], ['act="drop" object="source=grades rule=second"'], 'the drop of a rule is audited once');
is($store->pending, 24, 'those of other rules are pending');
is((drop('--source', 'grades"s'))[1], "dropped 3 notifications for 6 users\n", 'the notifications of a source are dropped');
is((drop('--source=grades'))[1], "dropped 20 notifications for 20 users\n", 'the other rule of a source too');
$store->execute('CONFIG', 'SET', 'maxmemory', 1);
is((drop('--source', 'notify'))[1], "dropped 1 notification for 1 user\n", 'and those of clairon.notify, also in a full store');
$store->execute('CONFIG', 'SET', 'maxmemory', 0);
is_deeply([ $store->pending, $store->error_count ], [ 0, 0 ], 'nothing is pending, and nothing in the error log');

# The command is another process, so the relay with the feed counts its drops.
wait_until('all dropped pairs are counted', sub { $relay->metric('clairon_dropped_total') == 2 + 1 + 8 + 5000 + 20 + 6 + 20 + 1 });
is($other->metric('clairon_dropped_total'), 0, 'each dropped pair is counted by one relay');

# Wrong usage.
for my $case ([ [], qr/either ID \.\.\., or --source$/ ], [ [ $id, '--source', 'grades' ], qr/either ID/ ], [ [ '--rule', 'r', $id ], qr/--rule needs --source/ ],
    [ ['x'], qr/invalid notification id, must be a UUID: x$/ ])
{
    ($code, $out, $err) = drop(@{ $case->[0] });
    is($code, 2, "wrong usage is rejected: @{ $case->[0] }");
    like($err, $case->[1], 'with the reason');
}

done_testing();
