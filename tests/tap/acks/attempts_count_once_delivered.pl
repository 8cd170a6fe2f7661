# Tests that a retry counts as an attempt only when it is delivered. A withheld retry is delivered as soon as the user
# may receive it.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'delivery.ack_timeout' => '1h', 'delivery.backoff_base' => '1h', 'delivery.backoff_cap' => '1h' });

sub notify { my ($audience, $targets, $more) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('$audience', '{$targets}', '{}', ack_required => true, $more)") }
sub attempts { my ($client, $id) = @_;
    return join ' ', map { $_->{routing}{retry}{attempts} } grep { $_->{metadata}{id} eq $id } $client->notifications }
sub retry_entries { my ($id) = @_; return scalar grep { $_->{id} eq $id && defined $_->{retry_users} } $store->entries }
sub due { my ($id, $user) = @_; return $store->execute('ZSCORE', $store->of($id, 'due'), "$id:$user") }
sub error_of { my ($id) = @_; my ($found) = grep { $_->{id} eq $id } $store->errors; return $found }

# The retry is created while the user's only connection must not receive it.
sub check_withheld
{
    my ($client, $user, $id, $hide, $unhide) = @_;
    $client->run_until('the first delivery arrives', sub { attempts($client, $id) eq '0' });
    $hide->();
    $store->make_due($id, $user);
    wait_until('the retry is created', sub { retry_entries($id) == 1 });
    my $other = notify('USER', $user, "retry_limit => 0, topic => 'visible'");
    $client->run_until('another notification arrives', sub { attempts($client, $other) eq '0' });
    $client->ack($other);
    is(attempts($client, $id), '0', 'a retry is withheld while the user lacks access');
    is($store->execute('HGET', $store->of($id, "retries:$id"), $user), '0+', 'no attempt is counted');
    is(due($id, $user), undef, 'the withheld retry is not due again');
    is($store->execute('HGET', $store->of($id, "ack:$id"), $user), '0',
        'the notification is still pending for the user');
    $unhide->();
    $client->run_until('the withheld attempt arrives', sub { attempts($client, $id) eq '0 1' });
    $store->make_due($id, $user);
    $client->run_until('all attempts arrive', sub { attempts($client, $id) eq '0 1 2' });
    $store->make_due($id, $user);
    wait_until('the notification is in the error log', sub { error_of($id) });
    is(attempts($client, $id), '0 1 2', 'all attempts are delivered after the user has access');
    is(error_of($id)->{reason} . ' ' . error_of($id)->{attempts}, 'exhausted 2', 'the notification is exhausted after the last attempt');
    return;
}

# The user leaves the audience and rejoins it while connected.
sub member
{
    my ($is) = @_;
    $pg->safe_psql('postgres', $is ? q{INSERT INTO clairon.member VALUES ('TEAM', 't1', 'k1')} : 'DELETE FROM clairon.member');
    return wait_until('the store has the membership', sub { $store->execute('SISMEMBER', $store->shared('members:TEAM:t1'), 'k1') == $is });
}
member(1);
my $left = $relay->client('k1');
my $id   = notify('TEAM', 't1', 'retry_limit => 2');
check_withheld($left, 'k1', $id, sub { member(0) }, sub { member(1) });

# The client unsubscribes from the topic and subscribes again.
my $narrow = $relay->client('k2', topics => [ 'a', 'visible' ]);
$id = notify('USER', 'k2', "retry_limit => 2, topic => 'a'");
check_withheld($narrow, 'k2', $id, sub { $narrow->send({ t => 'unsubscribe', r => 1, topics => ['a'] }); $narrow->wait_for('subscribed') },
    sub { $narrow->send({ t => 'subscribe', r => 2, topics => ['a'] }) });
is($relay->metric('clairon_store_errors_total'), 0, 'the store returns no errors');

done_testing();
