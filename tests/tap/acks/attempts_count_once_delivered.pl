# Does a retry count as an attempt only once it was shown, and is it shown as soon as it may be?
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'delivery.ack_timeout' => '300ms', 'delivery.backoff_base' => '50ms' });

sub notify { my ($audience, $targets, $more) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('$audience', '{$targets}', '{}', ack_required => true, $more)") }
sub attempts { my ($client, $id) = @_;
    return join ' ', map { $_->{routing}{retry}{attempts} } grep { $_->{metadata}{id} eq $id } $client->notifications }
sub copies { my ($id) = @_; return scalar grep { $_->{id} eq $id && defined $_->{only} } $store->entries }
sub due { my ($id, $user) = @_; return $store->execute('ZSCORE', $store->of($id, 'due'), "$id:$user") }
sub error_of { my ($id) = @_; my ($found) = grep { $_->{id} eq $id } $store->entries('clairon:errors'); return $found }

# The copy is made while its user has a connection that may not show it.
sub is_hidden
{
    my ($client, $user, $id, $hide, $unhide) = @_;
    $client->run_until('the first showing', sub { attempts($client, $id) eq '0' });
    wait_until('it is due', sub { defined due($id, $user) });
    $hide->();
    wait_until('the time of its ack is over', sub { copies($id) == 1 });
    my $other = notify('USER', $user, "retry_limit => 0, topic => 'shown'");
    $client->run_until('what may be shown', sub { attempts($client, $other) eq '0' });
    $client->ack($other);
    is(attempts($client, $id), '0', 'what may not be shown is not');
    is($store->execute('HGET', $store->of($id, "tries:$id"), $user), '0+', 'no attempt is counted');
    is(due($id, $user), undef, 'and it is not due again');
    is($store->execute('HGET', $store->of($id, "ack:$id"), $user), '0', 'but waited for');
    $unhide->();
    $client->run_until('all showings', sub { attempts($client, $id) eq '0 1 2' });
    wait_until('it is given up', sub { error_of($id) });
    is(attempts($client, $id), '0 1 2', 'once it may, it is shown as often as promised');
    is(error_of($id)->{reason} . ' ' . error_of($id)->{attempts}, 'exhausted 2', 'and then given up');
    return;
}

# Out of the audience, and in again, on a connection that stays.
sub member
{
    my ($is) = @_;
    $pg->safe_psql('postgres', $is ? q{INSERT INTO clairon.member VALUES ('TEAM', 't1', 'k1')} : 'DELETE FROM clairon.member');
    return wait_until('the store knows', sub { $store->execute('SISMEMBER', $store->shared('members:TEAM:t1'), 'k1') == $is });
}
member(1);
my $left = $relay->client('k1');
my $id   = notify('TEAM', 't1', 'retry_limit => 2');
is_hidden($left, 'k1', $id, sub { member(0) }, sub { member(1) });

# The topic hidden, and asked for again.
my $narrow = $relay->client('k2', topics => [ 'a', 'shown' ]);
$id = notify('USER', 'k2', "retry_limit => 2, topic => 'a'");
is_hidden($narrow, 'k2', $id, sub { $narrow->send({ t => 'unsubscribe', r => 1, topics => ['a'] }); $narrow->wait_for('subscribed') },
    sub { $narrow->send({ t => 'subscribe', r => 2, topics => ['a'] }) });
is($relay->metric('clairon_store_errors_total'), 0, 'the store never had to refuse');

done_testing();
