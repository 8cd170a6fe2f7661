# Tests that a pending notification is withheld from users who left its audience, and that a nack of an undelivered
# notification has no effect.
use strict;
use warnings;

use Clairon::Test qw(wait_until token of_mark);
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);

sub notify { my ($audience, $targets, $mark, $more) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('$audience', '{$targets}', '{\"mark\": \"$mark\"}'"
        . join(', ', '', $more || ()) . ')') }
sub members { return scalar @{ $store->execute('SMEMBERS', $store->shared('members:TEAM:t1')) } }

$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('TEAM', 't1', 'm1'), ('TEAM', 't1', 'm2')});
wait_until('both users are members', sub { members() == 2 });
my $secret = notify('TEAM', 't1', 'secret', 'ack_required => true');
wait_until('the notification is pending for both users',
    sub { $store->execute('HLEN', $store->of($secret, "ack:$secret")) == 2 });
$pg->safe_psql('postgres', q{DELETE FROM clairon.member WHERE user_id = 'm2'});
wait_until('one user has left', sub { members() == 1 });

my $left = $relay->client('m2');
notify('USER', 'm2', 'own', 'ack_required => true');
$left->run_until('the notification addressed only to this user arrives', sub { of_mark($left, 'own') });
is(scalar(of_mark($left, 'secret')), 0, 'a former member does not receive the notification at connect');
my ($status, $body) = $relay->get('/v1/poll?wait=0', Authorization => 'Bearer ' . token(sub => 'm2'));
unlike($body, qr/secret/, 'a poll of the former member does not return the notification');
my $stayed = $relay->client('m1');
$stayed->run_until('the notification arrives', sub { of_mark($stayed, 'secret') });
pass('a remaining member receives the notification');
is($store->execute('HGET', $store->of($secret, "ack:$secret"), 'm2'), '0',
    'the notification is still pending for the former member, because its recipients were determined at the commit');

$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('TEAM', 't1', 'm2')});
wait_until('both users are members again', sub { members() == 2 });
my $reconnected = $relay->client('m2');
$reconnected->run_until('the notification arrives', sub { of_mark($reconnected, 'secret') });
pass('a user who rejoins the audience receives the notification');
$_->ack($secret) for $reconnected, $stayed;
wait_until('both users have acknowledged', sub { !$store->execute('HEXISTS', $store->of($secret, 'pending'), $secret) });

# The connection's topics exclude the notification, so it is not delivered.
my $narrow = $relay->client('u1');
$narrow->send({ t => 'subscribe', r => 1, topics => ['none'] });
$narrow->wait_for('subscribed');
my $hidden = notify('USER', 'u1', 'hidden', 'ack_required => true, retry_limit => 0');
wait_until('the notification is stored', sub { $store->execute('HEXISTS', $store->of($hidden, "ack:$hidden"), 'u1') });
$narrow->send({ t => 'nack', ids => [$hidden], delay => 0 });
$narrow->send({ t => 'subscribe', r => 2, topics => ['*'] });
$narrow->run_until('the notification arrives', sub { of_mark($narrow, 'hidden') });
is($store->error_count, 0, 'a nack of an undelivered notification counts no attempt');
$narrow->ack($hidden);
wait_until('the notification is acknowledged', sub { $store->pending == 1 });

done_testing();
