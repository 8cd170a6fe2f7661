# Clairon::Test::Cluster: a faster PostgreSQL::Test::Cluster. It copies a template and runs queries without psql.
package Clairon::Test::Cluster;

use strict;
use warnings;

use parent -norequire, 'PostgreSQL::Test::Cluster';
use Clairon::Test::Query;
use Digest::SHA;
use Fcntl qw(:flock);
use File::Temp ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();

my @INITDB = ('--locale=C', '--encoding=UTF8');    # independent of the locale of the user who runs the tests
my $copies = 0;

# The extension, and the role of relays, in the database `postgres`.
my @EXTENSION = ('CREATE EXTENSION clairon', 'CREATE ROLE relay LOGIN REPLICATION IN ROLE clairon_relay');

# Initializes a cluster for logical decoding. extension => 1: start() also creates the extension and the role `relay`.
# A test's first cluster is a copy of a template, with the same system identifier, so further clusters run initdb.
sub init
{
    my ($self, %params) = @_;
    my @options = (allows_streaming => 'logical', extra => [@INITDB]);
    $self->{needs_extension} = $params{extension} && $copies;
    return $self->SUPER::init(@options) if $copies++;
    my $template = near($params{extension} ? template_with_extension() : template());
    my $original = \&PostgreSQL::Test::Utils::system_or_bail;
    no warnings 'redefine';
    # The method of PostgreSQL 15 has no template; the method of PostgreSQL 16 ignores its template with initdb options.
    local *PostgreSQL::Test::Utils::system_or_bail = sub {
        return $original->(@_) unless $_[0] eq 'initdb';
        return copy($template, $self->data_dir);
    };
    return $self->SUPER::init(@options);
}

sub start
{
    my ($self, @options) = @_;
    my $result = $self->SUPER::start(@options);
    $self->safe_psql('postgres', join ';', @EXTENSION) if delete $self->{needs_extension};
    return $result;
}

# Returns the folder of an initialized cluster that has never run. Later test runs reuse it.
sub template
{
    return folder("$ENV{CLAIRON_WORK}/initdb-" . version(), sub { run('initdb', '-D', $_[0], '-A', 'trust', '-N', @INITDB) });
}

# Returns the folder of a cluster with the extension. Its name depends on the installed files of the extension, and on
# this file.
sub template_with_extension
{
    my $bare   = template();
    my $digest = Digest::SHA->new(1);
    chomp(my $share = qx{pg_config --sharedir});
    $digest->addfile($_) for __FILE__, sort glob "$share/extension/clairon*";
    return folder("$ENV{CLAIRON_WORK}/extension-" . version() . '-' . $digest->hexdigest, sub {
        my ($folder) = @_;
        run('rm', '-rf', grep { -d } glob "$ENV{CLAIRON_WORK}/extension-*");    # of earlier versions
        copy($bare, $folder);
        my $sockets = File::Temp->newdir('clairon-XXXXXX', TMPDIR => 1);
        # Not single-user mode, which assigns object ids of the system.
        run('pg_ctl', '-D', $folder, '-w', '-l', "$folder.log", '-o', "-F -c listen_addresses= -k $sockets -p 5432", 'start');
        my $status = PostgreSQL::Test::Utils::system_log('psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-h', "$sockets", '-p', 5432, '-d', 'postgres',
            map { ('-c', $_) } @EXTENSION);
        run('pg_ctl', '-D', $folder, '-w', 'stop');
        $status == 0 or die "could not create the extension in $folder\n";
    });
}

# Returns a copy of the template next to the clusters. If they are in memory, further copies need less CPU time than
# copies from a disk.
sub near
{
    my ($template) = @_;
    my $name = $template =~ s{.*/}{}r;
    return folder("$PostgreSQL::Test::Utils::tmp_check/$name", sub { copy($template, $_[0]) });
}

# A recursive chmod of the checkout may have made the template readable for other users; PostgreSQL requires 0700.
sub copy
{
    my ($template, $folder) = @_;
    run('cp', '-a', $template, $folder);
    chmod 0700, $folder or die "could not chmod $folder: $!";
    return;
}

sub run { return PostgreSQL::Test::Utils::system_or_bail(@_) }

sub version { return qx{initdb --version} =~ s/[^\w.+~-]+/-/gr }

# Returns $folder. If it does not exist, $make->(..) makes it under another name.
sub folder
{
    my ($folder, $make) = @_;
    return $folder if -d $folder;
    open my $lock, '>', "$folder.lock" or die "could not write $folder.lock: $!";
    flock $lock, LOCK_EX or die "could not lock $folder.lock: $!";
    return $folder if -d $folder;
    run('rm', '-rf', "$folder.new");
    $make->("$folder.new");
    rename "$folder.new", $folder or die "could not rename $folder.new: $!";
    return $folder;
}

# Returns a session for these statements. Harmless statements share a session, because a new backend costs more CPU time
# than most of the tests' queries. Other statements end the shared session: they may change the settings or privileges
# of new sessions.
sub session
{
    my ($self, $database, @statements) = @_;
    my $last = delete $self->{session};
    return if !@statements;
    my $is_shared = Clairon::Test::Query::are_harmless(@statements);
    my $owner     = "$$ $database";    # not shared with a forked child
    my $query     = $is_shared && $last && $last->{owner} eq $owner && $last->{query}->is_idle ? $last->{query}
      : Clairon::Test::Query->connect($self->host, $self->port, $database);
    $self->{session} = { query => $query, owner => $owner } if $query && $is_shared;
    return $query;
}

# Drops a replication slot. The walsender of a relay that has just been stopped may still use it.
sub drop_slot
{
    my ($self, $name) = @_;
    Clairon::Test::wait_until("slot $name is dropped", sub { ($self->psql('postgres', "SELECT pg_drop_replication_slot('$name')"))[0] == 0 });
    return;
}

# A shared session may read new settings later than a new session.
sub reload
{
    my ($self, @options) = @_;
    delete $self->{session};
    return $self->SUPER::reload(@options);
}

# Like psql() of PostgreSQL::Test::Cluster; safe_psql() calls this method too.
sub psql
{
    my ($self, $database, $sql, %params) = @_;
    my %results    = map { $_ => delete $params{$_} } grep { exists $params{$_} } qw(stdout stderr);
    my $is_plain   = !grep { !/^on_error_(die|stop)$/ || !$params{$_} } keys %params;
    my @statements = $is_plain && !grep({ $ENV{$_} } qw(PGUSER PGOPTIONS PGCLIENTENCODING)) ? Clairon::Test::Query::split_statements($sql) : ();
    my $query      = $self->session($database, @statements);
    return $self->SUPER::psql($database, $sql, %params, %results) unless $query;

    my ($status, $out, $err) = $query->run(@statements);
    if ($status && $params{on_error_die})
    {
        die "error running SQL: '$err'\nwith sql '$sql'" if $status == 3;
        die "connection error: '$err'\nwith sql '$sql'";
    }
    ${ $results{stdout} } = $out if $results{stdout};
    ${ $results{stderr} } = $err if $results{stderr};
    return wantarray ? ($status, $out, $err) : $status;
}

1;
