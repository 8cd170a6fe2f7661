# Tests a page of a pending list that is older than a retry, with an entry that `trim.lua` has moved to the end of the stream: the session
# sends the retry, with its number of attempts, and does not repeat the notification as a first delivery.
use strict;
use warnings;

use Clairon::Test qw(wait_until script_text);
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true)});
my $store  = Clairon::Test::store();
my %conf   = ('delivery.ack_timeout' => '1h');
my $prompt = Clairon::Test::relay($pg, $store, conf => {%conf});
my $late   = Clairon::Test::delayed_replies($store->{socket});
my $relay  = Clairon::Test::relay(undef, $late, roles => 'gate', conf => {%conf});

sub attempts { my ($client) = @_; return join ' ', map { $_->{routing}{retry}{attempts} } $client->notifications }

my $client = $relay->client('u1');
$pg->safe_psql('postgres', q{INSERT INTO t VALUES (1, 'u1')});
my ($id) = map { $_->{metadata}{id} } $client->wait_notifications(1);
my ($first) = $store->entries;
wait_until('the entry is moved', sub {
    $store->execute('EVAL', script_text('trim'), 1, 'clairon:stream', 'clairon', 0, 3_600_000, 1e9);
    return ($store->entries)[-1]{entry} ne $first->{entry} });

wait_until('both relays wait for further entries', sub { $store->execute('INFO', 'clients') =~ /^blocked_clients:2\b/m });
$late->hold(page => $late->script('pending_page'));
$late->cut_link('^XREAD ');
$late->wait_held('page');
my $read = $relay->metric('clairon_hub_notifications_total');
$store->make_due($id, 'u1');
wait_until('the relay has read the retry', sub { $relay->metric('clairon_hub_notifications_total') > $read });
$late->release('page');
$client->run_until('the retry arrives', sub { $client->notifications >= 2 });
is(attempts($client), '0 1', 'the session sends the retry');

done_testing();
