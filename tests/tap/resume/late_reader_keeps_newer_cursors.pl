# Tests a client whose cursor is newer than what its relay reads: the store has restarted, and the relay's connection that reads the
# stream takes long to return. Nothing is lost, so the client receives no gap.
use strict;
use warnings;

use Clairon::Test qw(token);
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store(fsync => 'always');
my $proxy = Clairon::Test::delayed_replies($store->{socket});
my $relay = Clairon::Test::relay($pg, $store);
my $late  = Clairon::Test::relay(undef, $proxy, roles => 'gate');

sub notify { return $pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{u1}', '{}')}) }

my $client = $relay->client('u1');
$proxy->hold(history => $proxy->script('history'));
$store->kill9;
$store->start;
notify();
$client->wait_notifications(1);
$proxy->wait_held('history');
$late->wait_for_log(qr{store connected.*store connected}s);

# Longer than a relay waits that has only to follow a failover.
my $resumed = Clairon::Test::Client->new($late->url('/v1/ws'));
$resumed->send({ t => 'connect', r => 1, token => token(sub => 'u1'), pos => $client->pos });
Clairon::Test::Client::run_for(6.5);
is($resumed->gaps, '', 'the relay announces no gap while it does not read the stream');
$proxy->release('history');
my $id = notify();
$resumed->run_until('the next notification arrives', sub { grep { $_->{metadata}{id} eq $id } $resumed->notifications });
ok($resumed->wait_for('connected')->{resumed}, 'the client resumes once the relay reads the stream again');
is($resumed->gaps, '', 'it receives no gap');

done_testing();
