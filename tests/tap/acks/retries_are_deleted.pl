# Tests that the stream has the first entry of a notification and few of its retries: a retry is deleted once all its users
# have received it, have acknowledged, or have a newer one, and not before.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my %conf  = ('delivery.ack_timeout' => '100ms', 'delivery.backoff_base' => '20ms', 'delivery.backoff_cap' => '50ms');
my $relay = Clairon::Test::relay($pg, $store, conf => {%conf});
my $other = Clairon::Test::relay($pg, $store, conf => { %conf, 'relay.roles' => 'gate' });
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, users text[]);
    SELECT clairon.watch('t', 'USER', 'users', ack_required => true, retry_limit => 1000, backoff => 'FIXED')});

my ($u1, $u2) = ($relay->client('u1', auto_ack => 0), $other->client('u2', auto_ack => 0));
sub copies   { my ($id) = @_; return grep { $_->{id} eq $id && defined $_->{retry_users} } $store->entries }
sub attempts { my ($client, $id) = @_; return map { $_->{routing}{retry}{attempts} } grep { $_->{metadata}{id} eq $id } $client->notifications }
sub users_of { my ($copy) = @_; return join ',', unpack '(n/a)*', $copy->{retry_users} }

# One user.
$pg->safe_psql('postgres', q{INSERT INTO t VALUES (1, '{u1}')});
$u1->run_until('ten retries arrive', sub { $u1->notifications > 10 });
my ($id) = map { $_->{metadata}{id} } $u1->notifications;
is_deeply([ attempts($u1, $id) ], [ 0 .. $#{ [ $u1->notifications ] } ], 'each retry is received once, in order');
cmp_ok(scalar(copies($id)), '<=', 2, 'the stream has at most two retries of a user');
is(scalar(grep { $_->{id} eq $id && !defined $_->{retry_users} } $store->entries), 1, 'and the first entry');
$u1->ack($id);
wait_until('the notification is complete', sub { $store->pending == 0 });
is(scalar(copies($id)), 0, 'a completed notification has no retries in the stream');
is_deeply($store->execute('KEYS', '*:copies:*'), [], 'the list of its retries is deleted');
is($store->stored, 1, 'its first entry remains');

# A retry waits for a user whose relay is paused, while another user receives many.
$pg->safe_psql('postgres', q{INSERT INTO t VALUES (2, '{u1,u2}')});
$u2->run_until('the row arrives', sub { $u2->notifications });
($id) = map { $_->{metadata}{id} } $u2->notifications;
for my $client ($u1, $u2)
{
    $client->run_until('a retry arrives', sub { attempts($client, $id) > 1 });
}
kill 'STOP', $other->pid;
my ($awaited) = wait_until('a retry waits for the user of the paused relay', sub {
    return [ grep { users_of($_) =~ /u2/ } copies($id) ] if ($store->execute('HGET', $store->of($id, "retries:$id"), 'u2') // '') =~ /\+$/;
    return;
});
my $before = $u1->notifications;
$u1->run_until('ten more retries arrive for another user', sub { $u1->notifications > $before + 10 });
my ($kept) = grep { users_of($_) =~ /u2/ } copies($id);
is($kept && $kept->{entry}, $awaited->[-1]{entry}, 'a retry that its user has not received is not deleted');
cmp_ok(scalar(copies($id)), '<=', 3, 'others are');
my $known = $u2->notifications;
kill 'CONT', $other->pid;
$u2->run_until('the retry arrives', sub { $u2->notifications > $known });
is_deeply([ attempts($u2, $id) ], [ 0 .. $#{ [ attempts($u2, $id) ] } ], 'no retry is missing or received twice');
is($_->gaps, '', 'without a gap') for $u1, $u2;
$_->ack($id) for $u1, $u2;
wait_until('the notification is complete', sub { $store->pending == 0 });
is(scalar(copies($id)), 0, 'a completed notification has no retries in the stream');
done_testing();
