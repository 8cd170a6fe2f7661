# Tests that a delivery report that a relay repeats after a lost reply does not count the next retry, which was not
# delivered yet, as an attempt.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my %conf  = map { $_ => '1h' } qw(delivery.ack_timeout delivery.backoff_base delivery.backoff_cap);
my $relay = Clairon::Test::relay($pg, $store, conf => \%conf);
my $late  = Clairon::Test::delayed_replies($store->{socket});
my $gate  = Clairon::Test::relay(undef, $late, roles => 'gate', conf => \%conf);

sub notify { my ($topic) = @_;
    return $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{u1}', '{}', ack_required => true, retry_limit => 1, topic => '$topic')") }
sub attempts { my ($client, $id) = @_;
    return join ' ', map { $_->{routing}{retry}{attempts} } grep { $_->{metadata}{id} eq $id } $client->notifications }
sub retries { my ($id) = @_; return $store->execute('HGET', $store->of($id, "retries:$id"), 'u1') }
sub due { my ($id) = @_; return $store->execute('ZSCORE', $store->of($id, 'due'), "$id:u1") }

# The store has the report of the first delivery, but the relay does not know.
my $client = $gate->client('u1', topics => [ 'a', 'visible' ]);
$late->hold(report => $late->script('report'));
my $id = notify('a');
$client->run_until('the first delivery arrives', sub { attempts($client, $id) eq '0' });
$late->wait_held('report');

# The retry is added, but the client does not receive it.
$client->send({ t => 'unsubscribe', r => 1, topics => ['a'] });
$client->wait_for('subscribed');
$store->make_due($id, 'u1');
wait_until('the retry is added', sub { (retries($id) // '') eq '0+' });

# The relay repeats the report, before that of another notification.
$late->cut_link($late->script('report'));
$late->release('report');
my $other = notify('visible');
$client->run_until('another notification arrives', sub { attempts($client, $other) eq '0' });
wait_until('its report is stored', sub { due($other) });
is(retries($id), '0+', 'the repeated report does not count the retry');
ok(due($id), 'the retry is repeated, unless it is delivered before');

$client->send({ t => 'subscribe', r => 2, topics => ['a'] });
$client->run_until('the retry arrives', sub { attempts($client, $id) eq '0 1' });
wait_until('the retry is counted', sub { retries($id) eq '1' });
$store->make_due($id, 'u1');
wait_until('the notification is in the error log', sub { grep { $_->{id} eq $id } $store->errors });
is(attempts($client, $id), '0 1', 'all attempts were delivered before');

done_testing();
