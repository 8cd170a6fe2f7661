# Is a message that waits for an ack kept from who has left its audience, and a nack from what was never shown?
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
wait_until('they are members', sub { members() == 2 });
my $secret = notify('TEAM', 't1', 'secret', 'ack_required => true');
wait_until('both owe an ack', sub { $store->execute('HLEN', $store->of($secret, "ack:$secret")) == 2 });
$pg->safe_psql('postgres', q{DELETE FROM clairon.member WHERE user_id = 'm2'});
wait_until('one has left', sub { members() == 1 });

my $left = $relay->client('m2');
notify('USER', 'm2', 'own', 'ack_required => true');
$left->run_until('what is their own', sub { of_mark($left, 'own') });
is(scalar(of_mark($left, 'secret')), 0, 'who has left is not shown it at connect');
my ($status, $body) = $relay->get('/v1/poll?wait=0', Authorization => 'Bearer ' . token(sub => 'm2'));
unlike($body, qr/secret/, 'nor by a poll');
my $stayed = $relay->client('m1');
$stayed->run_until('the message', sub { of_mark($stayed, 'secret') });
pass('who has stayed is');
is($store->execute('HGET', $store->of($secret, "ack:$secret"), 'm2'), '0', 'the ack is still owed: who must ack was fixed at the commit');

$pg->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('TEAM', 't1', 'm2')});
wait_until('they are back', sub { members() == 2 });
my $back = $relay->client('m2');
$back->run_until('it', sub { of_mark($back, 'secret') });
pass('who comes back to the audience is shown it');
$_->ack($secret) for $back, $stayed;
wait_until('all have acked', sub { !$store->execute('HEXISTS', $store->of($secret, 'pending'), $secret) });

# Hidden by the connection's topics, so not shown to anyone.
my $narrow = $relay->client('u1');
$narrow->send({ t => 'subscribe', r => 1, topics => ['none'] });
$narrow->wait_for('subscribed');
my $hidden = notify('USER', 'u1', 'hidden', 'ack_required => true, retry_limit => 0');
wait_until('it is stored', sub { $store->execute('HEXISTS', $store->of($hidden, "ack:$hidden"), 'u1') });
$narrow->send({ t => 'nack', ids => [$hidden], delay => 0 });
$narrow->send({ t => 'subscribe', r => 2, topics => ['*'] });
$narrow->run_until('it is shown', sub { of_mark($narrow, 'hidden') });
is($store->execute('XLEN', 'clairon:errors'), 0, 'a nack of what was never shown uses nothing up');
$narrow->ack($hidden);
wait_until('it is acked', sub { $store->pending == 1 });

done_testing();
